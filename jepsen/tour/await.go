package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
)

// await asks for the status until it is as wanted, and shows how it changes.
func (t *tour) await(ctx context.Context, what string, wanted func(api.ClusterStatusResponse) (bool, error)) error {
	var last error
	err := cluster.Eventually(ctx, what, func() (bool, error) {
		s, err := t.status(ctx)
		if err != nil {
			last = err
			return false, nil //nolint:nilerr // there may be a leader next time
		}
		last = nil
		if line := describe(s); line != t.shown {
			t.say("     %s", line)
			t.shown = line
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

// awaitNew waits until nodes are voters with other directories than before, by which
// the cluster knew them. Before they vote, they learn.
func (t *tour) awaitNew(ctx context.Context, before map[string]string) error {
	learned := map[string]bool{} // instances
	err := t.await(ctx, "new nodes to learn and then to vote", func(s api.ClusterStatusResponse) (bool, error) {
		voting := 0
		for id, instance := range before {
			m, ok := member(s, id)
			switch {
			case !ok || m.Instance == instance:
			case m.Role == "learner":
				learned[m.Instance] = true
			case !learned[m.Instance]:
				return false, fmt.Errorf("node %s knew nothing, and votes without having been a learner", id)
			default:
				voting++
			}
		}
		return voting == len(before) && len(s.Members) == len(t.cluster.Nodes), nil
	})
	if err != nil {
		return err
	}
	return t.awaitVoters(ctx)
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

// watchAlone waits until a node, which is no majority, knows no leader any more, and
// watches then that it neither finds one nor moves its term on.
func (t *tour) watchAlone(ctx context.Context, n *cluster.Node) (own api.MemberStatus, err error) {
	err = cluster.Eventually(ctx, n.ID+" to miss the leader", func() (bool, error) {
		s, _, err := ownStatus(ctx, n)
		return err == nil && s.LeaderID == "", err
	})
	if err != nil {
		return own, fmt.Errorf("without a majority: %w", err)
	}
	first, _, err := ownStatus(ctx, n)
	if err != nil {
		return own, err
	}
	err = t.watching(ctx, func() error {
		var s *api.ClusterStatusResponse
		switch s, own, err = ownStatus(ctx, n); {
		case err != nil:
			return err
		case s.LeaderID != "" || s.Term != first.Term:
			return fmt.Errorf("without a majority, %s leads in term %d, after no leader in %d, says %s", s.LeaderID, s.Term, first.Term, n.ID)
		}
		return nil
	})
	if err == nil {
		t.say("     no leader for %s, the term stays %d", t.watch, first.Term)
	}
	return own, err
}

// watchQuiet watches that what disturb begins changes nothing: all members have the
// same leader in the same term all the time.
func (t *tour) watchQuiet(ctx context.Context, disturb func() error) error {
	first, _, err := ownStatus(ctx, t.cluster.Nodes[0])
	if err != nil {
		return err
	}
	if err := disturb(); err != nil {
		return err
	}
	err = t.watching(ctx, func() error {
		for _, n := range t.cluster.Nodes {
			s, _, err := ownStatus(ctx, n)
			if err != nil {
				return err
			}
			if s.Term != first.Term || s.LeaderID != first.LeaderID {
				return fmt.Errorf("the cluster is disturbed: %q led in term %d, %q does in %d, says %s", first.LeaderID, first.Term, s.LeaderID, s.Term, n.ID)
			}
		}
		return nil
	})
	if err == nil {
		t.say("     undisturbed for %s: %s leads in term %d", t.watch, first.LeaderID, first.Term)
	}
	return err
}

// watching looks again and again, and returns the first error.
func (t *tour) watching(ctx context.Context, look func() error) error {
	const interval = 10 * time.Millisecond
	for began := time.Now(); time.Since(began) < t.watch; {
		if err := look(); err != nil {
			return err
		}
		if err := sleep(ctx, interval); err != nil {
			return err
		}
	}
	return nil
}

// refusesReads checks that a node that is outside answers no linearizable read.
func refusesReads(ctx context.Context, n *cluster.Node) error {
	if info, err := n.Ask(ctx); err == nil {
		return fmt.Errorf("node %s is outside the cluster, and answers a linearizable read at index %d", n.ID, info.AppliedIndex)
	}
	return nil
}
