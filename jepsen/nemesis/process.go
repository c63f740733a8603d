package nemesis

import (
	"context"
	"errors"
	"time"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

const (
	followerChance = 0.2 // a follower is hit instead of the leader
	secondChance   = 0.2 // another node is paused meanwhile: no majority is left
	isolateChance  = 0.2 // all followers are paused instead of one node
	allChance      = 0.1 // all nodes are killed instead of one
)

// act is something done to one node for a while; meanwhile is called in the middle.
type act func(ctx context.Context, node *cluster.Node, length time.Duration, meanwhile func() error) error

// kill kills one node, mostly the leader, or all at once, and starts them again.
func (n *Nemesis) kill(ctx context.Context, f *Fault, leader *cluster.Node) error {
	if n.Random.Float64() < allChance {
		return n.killAll(ctx, f)
	}
	return n.hit(ctx, f, leader, "kill ", killFor, downFor)
}

func (n *Nemesis) killAll(ctx context.Context, f *Fault) error {
	f.Kind = "kill all"
	for _, node := range n.Cluster.Nodes {
		f.Nodes = append(f.Nodes, node.ID)
		node.Kill()
	}
	if err := sleep(ctx, downFor.choose(n.Random)); err != nil {
		return err
	}
	var errs []error
	for _, node := range n.Cluster.Nodes {
		errs = append(errs, node.Start())
	}
	return errors.Join(errs...)
}

// pause stops one node, mostly the leader, or all followers, for a while.
func (n *Nemesis) pause(ctx context.Context, f *Fault, leader *cluster.Node) error {
	if n.Random.Float64() < isolateChance {
		return n.pauseFollowers(ctx, f, leader)
	}
	return n.hit(ctx, f, leader, "pause ", holdFor, pauseFor)
}

// hit does something to one node, mostly the leader, and maybe pauses another one
// meanwhile.
func (n *Nemesis) hit(ctx context.Context, f *Fault, leader *cluster.Node, name string, do act, length bounds) error {
	victim := leader
	if n.Random.Float64() < followerChance {
		victim = n.other(leader)
	}
	f.Kind, f.Nodes = name+role(victim, leader), []string{victim.ID}
	meanwhile := func() error { return nil }
	if n.Random.Float64() < secondChance {
		second := n.other(victim)
		f.Kind, f.Nodes = f.Kind+", pause another", append(f.Nodes, second.ID)
		meanwhile = func() error { return n.second(ctx, second) }
	}
	return do(ctx, victim, length.choose(n.Random), meanwhile)
}

// pauseFollowers pauses all but the leader for longer than it goes on without them:
// what it logged alone meanwhile has an effect after all when it is elected again.
func (n *Nemesis) pauseFollowers(ctx context.Context, f *Fault, leader *cluster.Node) error {
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

// killFor is an act: the node is down for so long.
func killFor(ctx context.Context, node *cluster.Node, down time.Duration, meanwhile func() error) error {
	node.Kill()
	if err := meanwhile(); err != nil {
		return err
	}
	if err := sleep(ctx, down); err != nil {
		return err
	}
	return node.Start()
}

// holdFor is an act: the node does nothing for so long.
func holdFor(ctx context.Context, node *cluster.Node, length time.Duration, meanwhile func() error) error {
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
	return holdFor(ctx, node, secondPauseFor.choose(n.Random), func() error { return nil })
}

// restartAll stops and starts one node after the other, the leader when its turn comes,
// each when the one before is ready: what an operator does for a new configuration.
func (n *Nemesis) restartAll(ctx context.Context, f *Fault, _ *cluster.Node) error {
	f.Kind = "rolling restart"
	return n.rollOver(ctx, f)
}

func (n *Nemesis) rollOver(ctx context.Context, f *Fault) error {
	for _, node := range n.Cluster.Nodes {
		f.Nodes = append(f.Nodes, node.ID)
		if err := restart(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// restart ends a node as an operator does, and waits until it is back.
func restart(ctx context.Context, node *cluster.Node) error {
	if err := node.Stop(); err != nil {
		return err
	}
	if err := node.Start(); err != nil {
		return err
	}
	return node.AwaitReady(ctx)
}
