// Package nemesis does to a cluster what happens to clusters: nodes die, stop for a
// while, lose each other, their disk or their clock, are restarted, replaced and
// upgraded.
package nemesis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// Bounds of times, chosen evenly between them.
var (
	pauseFor       = bounds{500 * time.Millisecond, 3 * time.Second}
	downFor        = bounds{0, 1500 * time.Millisecond}
	secondAfter    = bounds{200 * time.Millisecond, 800 * time.Millisecond}
	secondPauseFor = bounds{300 * time.Millisecond, 1500 * time.Millisecond}
	isolateFor     = bounds{600 * time.Millisecond, 1200 * time.Millisecond}
	cutFor         = bounds{500 * time.Millisecond, 4 * time.Second}
	linkDelay      = bounds{5 * time.Millisecond, 200 * time.Millisecond}
	fullFor        = bounds{500 * time.Millisecond, 3 * time.Second}
	skewFor        = bounds{500 * time.Millisecond, 2 * time.Second}
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
	Kinds   []Kind       // that it may do
	Disk    *SmallDisk   // nil when no node is on one
	Next    string       // binary of a release of the next feature level, taken by the first upgrade

	released bool // the next release runs
	spares   int  // nodes that joined and were removed
}

// Run does faults, each kind as often as the others, as long as more says so, and calls
// done after each. It fails when the cluster does not come back from one.
func (n *Nemesis) Run(ctx context.Context, more func(done int) bool, done func(Fault) error) error {
	var round []Kind
	for i := 0; more(i); i++ {
		if len(round) == 0 {
			round = append(round, n.Kinds...)
			n.Random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		f, err := n.one(ctx, round[0])
		if err != nil {
			return err
		}
		round = round[1:]
		if err := done(f); err != nil {
			return err
		}
	}
	return nil
}

// one is one fault, from a whole cluster to a whole cluster.
func (n *Nemesis) one(ctx context.Context, k Kind) (f Fault, err error) {
	leader, err := n.Cluster.Leader(ctx)
	if err != nil {
		return f, err
	}
	f.Begin = n.Now()
	err = k.do(n, ctx, &f, leader)
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

// other is any node but that one.
func (n *Nemesis) other(not *cluster.Node) *cluster.Node {
	for {
		if node := n.any(); node != not {
			return node
		}
	}
}

func (n *Nemesis) any() *cluster.Node {
	return n.Cluster.Nodes[n.Random.IntN(len(n.Cluster.Nodes))]
}

// role says what the node was when the fault began.
func role(node, leader *cluster.Node) string {
	if node == leader {
		return "leader"
	}
	return "follower"
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
