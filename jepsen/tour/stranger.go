package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
)

// oldDir is where the copy of a lost directory is kept.
func oldDir(dir string) string { return filepath.Join(dir, "old") }

// strangers has nodes turn up that have nothing to do with the cluster, though they
// once had, or are meant to.
func (t *tour) strangers(ctx context.Context) error {
	if err := t.returnOld(ctx); err != nil {
		return err
	}
	return t.visit(ctx)
}

// returnOld starts a node of the cluster that was given up, on the directory that it
// had then.
func (t *tour) returnOld(ctx context.Context) error {
	t.old.Dir = oldDir(t.dir)
	t.old.Flags = t.comingTo(t.old)
	t.say("   %s turns up again with the data that it had", t.old.ID)
	if err := t.watchQuiet(ctx, t.old.Start); err != nil {
		return err
	}
	if err := t.awaitReason(ctx, t.old, "belongs to cluster"); err != nil {
		return err
	}
	return errors.Join(refusesReads(ctx, t.old), t.refusesJoin(ctx, t.old))
}

// comingTo are the flags of a node that takes the members for its peers.
func (t *tour) comingTo(n *cluster.Node) []string {
	return []string{"--peers", peers(slices.Concat(t.cluster.Nodes, []*cluster.Node{n})...)}
}

// visit has the node of another cluster come with peers of this one.
func (t *tour) visit(ctx context.Context) error {
	visitor, err := t.cluster.Add("visitor")
	if err != nil {
		return err
	}
	t.cluster.Drop(visitor)
	if err := errors.Join(visitor.Start(), visitor.AwaitReady(ctx), visitor.Stop()); err != nil {
		return err
	}
	visitor.Flags = t.comingTo(visitor)
	t.say("   %s comes from a cluster of its own", visitor.ID)
	if err := t.watchQuiet(ctx, visitor.Start); err != nil {
		return err
	}
	return t.refusesJoin(ctx, visitor)
}

// refusesJoin checks that a node cannot be added, and that it is said why.
func (t *tour) refusesJoin(ctx context.Context, n *cluster.Node) error {
	err := t.verb(ctx, "cluster", "join", n.ID+"="+n.RaftAddr)
	switch {
	case err == nil:
		return fmt.Errorf("node %s of another cluster may join", n.ID)
	case !strings.Contains(err.Error(), "belongs to cluster"):
		return fmt.Errorf("node %s of another cluster may not join, for another reason: %w", n.ID, err)
	}
	t.say("     %v", err)
	return t.await(ctx, "only members to be members", func(s api.ClusterStatusResponse) (bool, error) {
		return len(s.Members) == len(t.cluster.Nodes), nil
	})
}
