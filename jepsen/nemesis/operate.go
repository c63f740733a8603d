package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/ops"
)

// upgrade restarts one node after the other with the next release, and raises the
// cluster's feature level. Once that is done it is a rolling restart.
func (n *Nemesis) upgrade(ctx context.Context, f *Fault, leader *cluster.Node) error {
	if n.released {
		return n.restartAll(ctx, f, leader)
	}
	f.Kind = "rolling upgrade"
	n.released = true
	if err := n.Cluster.Release(n.Next); err != nil {
		return err
	}
	if err := n.rollOver(ctx, f); err != nil {
		return err
	}
	const level = ops.FeatureLevel + 1
	f.Note = fmt.Sprintf("feature level %d", level)
	return n.admin(ctx, "the feature level to be raised", func(ctx context.Context, c *api.Client) error {
		_, err := c.ClusterUpgrade(ctx, &api.ClusterUpgradeRequest{Level: level})
		return err
	})
}

// transfer hands leadership to another node.
func (n *Nemesis) transfer(ctx context.Context, f *Fault, leader *cluster.Node) error {
	to := n.other(leader)
	f.Kind, f.Nodes = "leader transfer", []string{leader.ID, to.ID}
	return n.handOver(ctx, to)
}

func (n *Nemesis) handOver(ctx context.Context, to *cluster.Node) error {
	return n.admin(ctx, to.ID+" to lead", func(ctx context.Context, c *api.Client) error {
		_, err := c.ClusterTransfer(ctx, &api.ClusterTransferRequest{NodeID: to.ID})
		return unless(ctx, c, err, func(s *api.ClusterStatusResponse) bool { return s.LeaderID == to.ID })
	})
}

// unless is the error, or nil when the cluster is as it was to be: an earlier attempt
// was carried out, and its answer lost.
func unless(ctx context.Context, c *api.Client, err error, done func(*api.ClusterStatusResponse) bool) error {
	if err == nil {
		return nil
	}
	if s, asked := c.ClusterStatus(ctx, &api.ClusterStatusRequest{}); asked == nil && done(s) {
		return nil
	}
	return err
}

// skews of a node's clock: two that are none of the others' business, and two that keep
// it from leading.
var skews = []time.Duration{-3 * time.Second, 3 * time.Second, -time.Hour, 24 * time.Hour}

// skewClock restarts a node with a clock that is off, and hands it the lead if it takes
// it, and restarts it with the right one.
func (n *Nemesis) skewClock(ctx context.Context, f *Fault, leader *cluster.Node) error {
	victim, by := n.any(), skews[n.Random.IntN(len(skews))]
	f.Kind, f.Nodes, f.Note = "clock skew of "+role(victim, leader), []string{victim.ID}, "off by "+by.String()
	victim.SkewClock(by)
	defer victim.SkewClock(0)
	if err := restart(ctx, victim); err != nil {
		return err
	}
	if err := n.offerLead(ctx, victim); err != nil {
		f.Note += ", did not take the lead"
	}
	if err := sleep(ctx, skewFor.choose(n.Random)); err != nil {
		return err
	}
	victim.SkewClock(0)
	return restart(ctx, victim)
}

// offerLead asks once that the node leads, and does not wait long.
func (n *Nemesis) offerLead(ctx context.Context, node *cluster.Node) error {
	client, err := n.Cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, skewFor.to)
	defer cancel()
	_, err = client.ClusterTransfer(ctx, &api.ClusterTransferRequest{NodeID: node.ID})
	return err
}

// changeMembers lets another node join, removes one of the old, lets that join again
// with an empty directory, and removes the other.
func (n *Nemesis) changeMembers(ctx context.Context, f *Fault, leader *cluster.Node) error {
	victim := n.any()
	n.spares++
	spare, err := n.Cluster.Add(fmt.Sprintf("x%d", n.spares))
	if err != nil {
		return err
	}
	f.Kind, f.Nodes = "members: "+role(victim, leader)+" replaced and put back", []string{spare.ID, victim.ID}
	spare.Flags = []string{"--peers", peers(n.Cluster.Nodes)}
	for _, step := range []func() error{
		func() error { return n.join(ctx, spare) },
		func() error { return n.remove(ctx, victim) },
		func() error { return n.join(ctx, victim) },
		func() error { return n.remove(ctx, spare) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	n.Cluster.Drop(spare)
	return nil
}

func peers(nodes []*cluster.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.ID+"="+n.RaftAddr)
	}
	return strings.Join(all, ",")
}

// join starts an empty node, and waits until it votes.
func (n *Nemesis) join(ctx context.Context, node *cluster.Node) error {
	if err := node.Start(); err != nil {
		return err
	}
	err := n.admin(ctx, node.ID+" to join", func(ctx context.Context, c *api.Client) error {
		_, err := c.ClusterJoin(ctx, &api.ClusterJoinRequest{NodeID: node.ID, RaftAddr: node.RaftAddr})
		return err
	})
	if err != nil {
		return err
	}
	return n.awaitVote(ctx, node)
}

// awaitVote waits until the node votes with the directory that it has now, and nobody
// else of its name does: one that was wiped is a voter until others find that out.
func (n *Nemesis) awaitVote(ctx context.Context, node *cluster.Node) error {
	return n.admin(ctx, node.ID+" to vote", func(ctx context.Context, c *api.Client) error {
		instance, err := node.Instance()
		if err != nil {
			return err
		}
		s, err := c.ClusterStatus(ctx, &api.ClusterStatusRequest{})
		if err != nil {
			return err
		}
		lines, votes := 0, false
		for _, m := range s.Members {
			if m.NodeID == node.ID {
				lines, votes = lines+1, m.Instance == instance && m.Role == "voter" && m.Reachable
			}
		}
		if lines != 1 || !votes {
			return errors.New("it does not yet")
		}
		return nil
	})
}

// remove takes a node out of the cluster, and its process and files away.
func (n *Nemesis) remove(ctx context.Context, node *cluster.Node) error {
	err := n.admin(ctx, node.ID+" to be removed", func(ctx context.Context, c *api.Client) error {
		_, err := c.ClusterRemove(ctx, &api.ClusterRemoveRequest{NodeID: node.ID})
		return unless(ctx, c, err, func(s *api.ClusterStatusResponse) bool {
			return !slices.ContainsFunc(s.Members, func(m api.MemberStatus) bool { return m.NodeID == node.ID })
		})
	})
	if err != nil {
		return err
	}
	node.Kill()
	return node.Wipe()
}

// admin asks for something until it is done: whoever leads may just have changed.
func (n *Nemesis) admin(ctx context.Context, what string, do func(context.Context, *api.Client) error) error {
	client, err := n.Cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	var last error
	err = cluster.Eventually(ctx, what, func() (bool, error) {
		last = do(ctx, client)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}
