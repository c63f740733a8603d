package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// one has clients work with a single node.
func (t *tour) one(ctx context.Context) error { return t.awaitVoters(ctx) }

func (t *tour) three(ctx context.Context) error {
	if err := t.join(ctx, "n2"); err != nil {
		return err
	}
	return t.join(ctx, "n3")
}

// five adds two nodes at the same time.
func (t *tour) five(ctx context.Context) error { return t.join(ctx, "n4", "n5") }

// join starts new nodes, adds them to the cluster, and waits until they vote.
func (t *tour) join(ctx context.Context, ids ...string) error {
	var added []*cluster.Node
	unknown := map[string]string{}
	members := slices.Clone(t.cluster.Nodes)
	for _, id := range ids {
		n, err := t.cluster.Add(id)
		if err != nil {
			return err
		}
		n.Flags = []string{"--peers", peers(slices.Concat(members, []*cluster.Node{n})...)}
		if err := n.Start(); err != nil {
			return err
		}
		added, unknown[id] = append(added, n), ""
	}
	for _, n := range added {
		if err := t.awaitReason(ctx, n, fmt.Sprintf("is not a member yet: run cpnode cluster join %s=%s", n.ID, n.RaftAddr)); err != nil {
			return err
		}
		if err := t.verb(ctx, "cluster", "join", n.ID+"="+n.RaftAddr); err != nil {
			return err
		}
	}
	if err := t.awaitNew(ctx, unknown); err != nil {
		return err
	}
	return t.direct()
}

// remove takes the leader out, and a follower that is down and hears of it later.
// They are no trouble then, nor when they are started again.
func (t *tour) remove(ctx context.Context) error {
	leader, followers, err := t.roles(ctx)
	if err != nil {
		return err
	}
	if err := t.removeOne(ctx, leader); err != nil {
		return err
	}
	if err := t.awaitRemoved(ctx, leader); err != nil {
		return err
	}
	down := followers[0]
	if err := down.Stop(); err != nil {
		return err
	}
	t.say("   %s is down", down.ID)
	if err := t.removeOne(ctx, down); err != nil {
		return err
	}
	t.say("   the removed nodes are started again")
	err = t.watchQuiet(ctx, func() error { return errors.Join(down.Start(), leader.Stop(), leader.Start()) })
	if err != nil {
		return err
	}
	return errors.Join(t.awaitRemoved(ctx, leader), t.awaitRemoved(ctx, down))
}

func (t *tour) removeOne(ctx context.Context, n *cluster.Node) error {
	if err := t.verb(ctx, "cluster", "remove", n.ID, "--yes"); err != nil {
		return err
	}
	t.cluster.Drop(n)
	if err := t.direct(); err != nil {
		return err
	}
	return t.awaitVoters(ctx)
}

func (t *tour) awaitRemoved(ctx context.Context, n *cluster.Node) error {
	if err := t.awaitReason(ctx, n, "was removed from the cluster"); err != nil {
		return err
	}
	return refusesReads(ctx, n)
}

// roles is who leads, and who does not.
func (t *tour) roles(ctx context.Context) (leader *cluster.Node, followers []*cluster.Node, err error) {
	s, err := t.status(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range t.cluster.Nodes {
		if n.ID == s.LeaderID {
			leader = n
		} else {
			followers = append(followers, n)
		}
	}
	if leader == nil {
		return nil, nil, fmt.Errorf("%q leads, which is none of the nodes", s.LeaderID)
	}
	return leader, followers, nil
}

// moveOne gives a follower other addresses, which it alone is told.
func (t *tour) moveOne(ctx context.Context) error {
	_, followers, err := t.roles(ctx)
	if err != nil {
		return err
	}
	n := followers[0]
	if err := errors.Join(n.Stop(), n.Move()); err != nil {
		return err
	}
	n.Flags = []string{"--peers", peers(t.cluster.Nodes...)}
	t.say("   %s goes on at %s", n.ID, n.RaftAddr)
	if err := n.Start(); err != nil {
		return err
	}
	return t.awaitVoters(ctx)
}

// moveAll gives all nodes other addresses while none of them runs.
func (t *tour) moveAll(ctx context.Context) error {
	if err := t.cluster.Stop(); err != nil {
		return err
	}
	for _, n := range t.cluster.Nodes {
		if err := n.Move(); err != nil {
			return err
		}
	}
	for _, n := range t.cluster.Nodes {
		n.Flags = []string{"--peers", peers(t.cluster.Nodes...)}
	}
	if err := t.direct(); err != nil {
		return err
	}
	t.say("   they go on at %s", peers(t.cluster.Nodes...))
	if err := t.cluster.Start(ctx); err != nil {
		return err
	}
	return t.awaitVoters(ctx)
}
