// Package nemesis does to a cluster what happens to clusters: it kills nodes, and
// pauses them for longer than it takes the others to elect another leader.
package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// Fault is one thing that was done to the cluster, and how long it took until all
// nodes were ready again. Times are on the history's clock, in nanoseconds.
type Fault struct {
	Kind  string   `json:"kind"`
	Nodes []string `json:"nodes"`
	Begin int64    `json:"begin_ns"`
	End   int64    `json:"end_ns"`   // killed nodes were started, paused ones went on
	Ready int64    `json:"ready_ns"` // all nodes said that they are ready
}

const (
	followerChance = 0.2 // a follower is hit instead of the leader
	secondChance   = 0.2 // another node is paused meanwhile: no majority is left
	isolateChance  = 0.2 // all followers are paused instead of one node
)

// Bounds of times, chosen evenly between them.
var (
	pauseFor       = bounds{500 * time.Millisecond, 3 * time.Second}
	downFor        = bounds{0, 1500 * time.Millisecond}
	secondAfter    = bounds{200 * time.Millisecond, 800 * time.Millisecond}
	secondPauseFor = bounds{300 * time.Millisecond, 1500 * time.Millisecond}
	isolateFor     = bounds{600 * time.Millisecond, 1200 * time.Millisecond}
	quietFor       = bounds{300 * time.Millisecond, 900 * time.Millisecond}
)

// Period is about how long one fault takes, with the quiet after it.
const Period = 2300 * time.Millisecond

type bounds struct{ from, to time.Duration }

func (b bounds) choose(r *rand.Rand) time.Duration {
	return b.from + time.Duration(r.Int64N(int64(b.to-b.from)))
}

// Nemesis does one thing after the other.
type Nemesis struct {
	Cluster *cluster.Cluster
	Random  *rand.Rand
	Now     func() int64 // the history's clock
}

// Run does as many faults, kills and pauses in turn, and calls done after each. It
// fails when the cluster does not come back from one.
func (n *Nemesis) Run(ctx context.Context, faults int, done func(Fault) error) error {
	for i := range faults {
		f, err := n.one(ctx, i%2 == 0)
		if err != nil {
			return err
		}
		if err := done(f); err != nil {
			return err
		}
	}
	return nil
}

// one is one fault, from a whole cluster to a whole cluster.
func (n *Nemesis) one(ctx context.Context, kill bool) (f Fault, err error) {
	leader, err := n.Cluster.Leader(ctx)
	if err != nil {
		return f, err
	}
	f.Begin = n.Now()
	if !kill && n.Random.Float64() < isolateChance {
		err = n.isolate(ctx, &f, leader)
	} else {
		err = n.hit(ctx, &f, leader, kill)
	}
	f.End = n.Now()
	if err != nil {
		return f, err
	}
	err = n.Cluster.AwaitReady(ctx)
	f.Ready = n.Now()
	if err != nil {
		return f, err
	}
	return f, sleep(ctx, quietFor.choose(n.Random))
}

// hit kills or pauses one node, mostly the leader, and maybe another one meanwhile.
func (n *Nemesis) hit(ctx context.Context, f *Fault, leader *cluster.Node, kill bool) error {
	victim, role := leader, " leader"
	if n.Random.Float64() < followerChance {
		victim, role = n.other(leader), " follower"
	}
	f.Kind, f.Nodes = "pause"+role, []string{victim.ID}
	act, length := n.pause, pauseFor.choose(n.Random)
	if kill {
		f.Kind, act, length = "kill"+role, n.kill, downFor.choose(n.Random)
	}
	meanwhile := func() error { return nil }
	if n.Random.Float64() < secondChance {
		second := n.other(victim)
		f.Kind, f.Nodes = f.Kind+", pause another", append(f.Nodes, second.ID)
		meanwhile = func() error { return n.second(ctx, second) }
	}
	return act(ctx, victim, length, meanwhile)
}

// isolate pauses all but the leader for longer than it goes on without them: what it
// logged alone meanwhile has an effect after all when it is elected again.
func (n *Nemesis) isolate(ctx context.Context, f *Fault, leader *cluster.Node) error {
	f.Kind = "pause all followers"
	var errs []error
	for _, node := range n.Cluster.Nodes {
		if node != leader {
			f.Nodes = append(f.Nodes, node.ID)
			errs = append(errs, node.Pause())
		}
	}
	errs = append(errs, sleep(ctx, isolateFor.choose(n.Random)))
	for _, id := range f.Nodes {
		errs = append(errs, n.Cluster.Node(id).Resume())
	}
	return errors.Join(errs...)
}

// other is any node but that one.
func (n *Nemesis) other(not *cluster.Node) *cluster.Node {
	for {
		if node := n.Cluster.Nodes[n.Random.IntN(len(n.Cluster.Nodes))]; node != not {
			return node
		}
	}
}

func (n *Nemesis) kill(ctx context.Context, node *cluster.Node, down time.Duration, meanwhile func() error) error {
	node.Kill()
	if err := meanwhile(); err != nil {
		return err
	}
	if err := sleep(ctx, down); err != nil {
		return err
	}
	return node.Start()
}

func (n *Nemesis) pause(ctx context.Context, node *cluster.Node, length time.Duration, meanwhile func() error) error {
	if err := node.Pause(); err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	if err := sleep(ctx, length); err != nil {
		return err
	}
	return node.Resume()
}

// second pauses another node for a moment, a moment later.
func (n *Nemesis) second(ctx context.Context, node *cluster.Node) error {
	if err := sleep(ctx, secondAfter.choose(n.Random)); err != nil {
		return err
	}
	return n.pause(ctx, node, secondPauseFor.choose(n.Random), func() error { return nil })
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Append adds a fault to a file, one JSON line each.
func Append(path string, f Fault) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// Read reads such a file.
func Read(path string) (faults []Fault, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	for d := json.NewDecoder(file); d.More(); {
		var f Fault
		if err := d.Decode(&f); err != nil {
			return nil, err
		}
		faults = append(faults, f)
	}
	return faults, nil
}
