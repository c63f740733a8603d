package raftnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// adopt is for a node with an empty directory whose peers have formed a cluster.
// It takes part when a peer's configuration holds this very directory, as a voter
// that missed the forming or as a learner; asks to be taken back when it holds
// another one under this name; else waits to be added. The silent ones are peers
// that gave no answer, and why.
func (n *Node) adopt(ctx context.Context, replies []reply, silent []string) (done bool, waiting []string, err error) {
	replaced := false
	var formed []reply
	for _, r := range replies {
		if r.err != nil || r.Cluster == (clusterID{}) {
			continue
		}
		formed = append(formed, r)
		for _, s := range r.Servers {
			if s.ID == n.id() {
				return true, nil, n.adoptCluster(r.Cluster)
			}
			replaced = replaced || nameOf(s.ID) == n.config.NodeID
		}
	}
	if !replaced {
		return false, []string{fmt.Sprintf("%s: %s is not a member yet: run cpnode cluster join %s=%s", names(formed), n.config.NodeID, n.config.NodeID, n.advertised)}, nil
	}
	return false, slices.Concat(n.lost(replies), n.askBack(ctx, formed), silent), nil
}

// adoptCluster makes the node part of a cluster that others formed. Its log begins
// empty: that it once existed is told by a term, which raft itself only moves on.
func (n *Node) adoptCluster(cluster clusterID) error {
	if err := n.log.SetUint64(keyCurrentTerm, 1); err != nil {
		return err
	}
	id := *n.identity.Load()
	id.Cluster = cluster
	return n.joined(id)
}

// askBack asks the leader to take this node back in place of the directory that it
// had before. It need not be one of the peers that this node was started with.
func (n *Node) askBack(ctx context.Context, formed []reply) (waiting []string) {
	var all []Peer
	for _, r := range formed {
		all = append(all, r.peer)
	}
	for _, r := range formed {
		known := func(p Peer) bool { return p.ID == nameOf(r.Leader) }
		if leader, ok := r.leader(); ok && !slices.ContainsFunc(all, known) {
			all = append(all, leader)
		}
	}
	for _, p := range all {
		said, err := n.askAddr(ctx, p, controlRequest{Verb: verbReadmit})
		switch {
		case err != nil:
			waiting = append(waiting, fmt.Sprintf("%s: %v", p.ID, err))
		case said.Error != nil:
			waiting = append(waiting, fmt.Sprintf("%s: %s has lost its data and asks to be taken back: %s", p.ID, n.config.NodeID, said.Error.Message))
		default:
			waiting = append(waiting, fmt.Sprintf("%s: is taking %s back", p.ID, n.config.NodeID))
		}
	}
	return waiting
}

// lost says how many voters have lost their data, when the others are too few to
// elect a leader who could take them back.
func (n *Node) lost(replies []reply) []string {
	present := map[string]instanceID{n.config.NodeID: n.identity.Load().Instance}
	servers := map[raft.ServerID]bool{}
	for _, r := range replies {
		if r.err != nil {
			continue
		}
		present[r.peer.ID] = r.Instance
		for _, s := range r.Servers {
			servers[s.ID] = servers[s.ID] || s.Voter
		}
	}
	all, gone := 0, 0
	for id, voter := range servers {
		if !voter {
			continue
		}
		all++
		if instance, answers := present[nameOf(id)]; answers && instance.String() != instanceOf(id) {
			gone++
		}
	}
	if all-gone > all/2 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d voters have lost their data: see cpnode recover", gone, all)}
}

func names(replies []reply) string {
	var all []string
	for _, r := range replies {
		all = append(all, r.peer.ID)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
