package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
)

// watchInterval is how often it is looked whether nothing happens.
const watchInterval = 10 * time.Millisecond

// await asks for the status until it is as wanted, and shows how it changes.
func (t *tour) await(ctx context.Context, what string, wanted func(api.ClusterStatusResponse) (bool, error)) error {
	shown := ""
	var last error
	err := cluster.Eventually(ctx, what, func() (bool, error) {
		s, err := t.status(ctx)
		if err != nil {
			last = err
			return false, nil //nolint:nilerr // there may be a leader next time
		}
		last = nil
		if line := describe(s); line != shown {
			t.say("     %s", line)
			shown = line
		}
		return wanted(s)
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// awaitVoters waits until the voters are all of the cluster's nodes, each where it
// is, and nobody else is a member.
func (t *tour) awaitVoters(ctx context.Context) error {
	err := t.await(ctx, fmt.Sprintf("%d voters, each at its address", len(t.cluster.Nodes)), func(s api.ClusterStatusResponse) (bool, error) {
		for _, n := range t.cluster.Nodes {
			m, ok := member(s, n.ID)
			if !ok || m.Role != "voter" || !m.Reachable || m.RaftAddr != n.RaftAddr || m.HTTPAddr != n.HTTPAddr {
				return false, nil
			}
		}
		return len(s.Members) == len(t.cluster.Nodes), nil
	})
	if err != nil {
		return err
	}
	return t.cluster.AwaitReady(ctx)
}

// awaitTakenBack waits until nodes that lost their directories, whose names and old
// instances are given, are voters again. Before they vote, they learn.
func (t *tour) awaitTakenBack(ctx context.Context, before map[string]string) error {
	learned := map[string]bool{}
	return t.await(ctx, "wiped nodes to learn and then to vote", func(s api.ClusterStatusResponse) (bool, error) {
		voting := 0
		for id, instance := range before {
			m, ok := member(s, id)
			switch {
			case !ok || m.Instance == instance:
			case m.Role == "learner":
				learned[id] = true
			case !learned[id]:
				return false, fmt.Errorf("node %s lost its data and votes without having been a learner", id)
			default:
				voting++
			}
		}
		return voting == len(before) && len(s.Members) == len(t.cluster.Nodes), nil
	})
}

// awaitReason waits until a node says why it is not ready, in these words.
func (t *tour) awaitReason(ctx context.Context, n *cluster.Node, words string) error {
	reason := ""
	err := cluster.Eventually(ctx, fmt.Sprintf("node %s to say %q", n.ID, words), func() (_ bool, err error) {
		reason, err = n.NotReady(ctx)
		return strings.Contains(reason, words), err
	})
	if err != nil {
		return fmt.Errorf("%w; it says %q", err, reason)
	}
	t.say("     %s: %s", n.ID, reason)
	return nil
}

// awaitNoLeader waits until the members have no leader.
func (t *tour) awaitNoLeader(ctx context.Context) error {
	return cluster.Eventually(ctx, "the leader to be missed", func() (bool, error) {
		_, err := t.status(ctx)
		return err != nil, ctx.Err()
	})
}

// watchNoLeader watches that a node, which is no majority, neither knows a leader nor
// moves its term on.
func (t *tour) watchNoLeader(ctx context.Context, n *cluster.Node) (own api.MemberStatus, err error) {
	first, own, err := ownStatus(ctx, n)
	for began := time.Now(); err == nil && time.Since(began) < t.watch; {
		var s *api.ClusterStatusResponse
		switch s, own, err = ownStatus(ctx, n); {
		case err != nil:
		case s.LeaderID != "":
			err = fmt.Errorf("%s leads, says %s", s.LeaderID, n.ID)
		case s.Term != first.Term:
			err = fmt.Errorf("the term of %s grew from %d to %d", n.ID, first.Term, s.Term)
		default:
			err = sleep(ctx, watchInterval)
		}
	}
	if err != nil {
		return own, fmt.Errorf("without a majority: %w", err)
	}
	t.say("     no leader for %s, the term stays %d", t.watch, first.Term)
	return own, nil
}

// watchQuiet watches that the members have the same leader in the same term all the
// time.
func (t *tour) watchQuiet(ctx context.Context) error {
	first, err := t.status(ctx)
	if err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < t.watch; {
		s, err := t.status(ctx)
		if err != nil {
			return err
		}
		if s.Term != first.Term || s.LeaderID != first.LeaderID {
			return fmt.Errorf("the cluster is disturbed: %s led in term %d, %s does in %d", first.LeaderID, first.Term, s.LeaderID, s.Term)
		}
	}
	t.say("     undisturbed for %s: %s leads in term %d", t.watch, first.LeaderID, first.Term)
	return nil
}

// refusesReads checks that a node that is outside answers no linearizable read.
func refusesReads(ctx context.Context, n *cluster.Node) error {
	if info, err := n.Ask(ctx); err == nil {
		return fmt.Errorf("node %s is outside the cluster, and answers a linearizable read at index %d", n.ID, info.AppliedIndex)
	}
	return nil
}
