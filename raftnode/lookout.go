package raftnode

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

// lookOut asks the other members, while this node hears from no leader, whether it
// still is one; which also tells them where it is reached. It returns when ctx ends
// or the node was removed.
func (n *Node) lookOut(ctx context.Context) {
	for !n.identity.Load().Removed {
		n.electAlone()
		if n.raft.State() != raft.Leader && !n.hearsLeader() && n.outOf(ctx) {
			if err := n.leave(); err != nil {
				n.fail(err)
				return
			}
			break
		}
		if wait(ctx, n.config.pollInterval) != nil {
			return
		}
	}
	n.logger.Error("this node was removed from the cluster")
	close(n.removed)
}

// electAlone makes the only voter the leader at once: there is nobody to wait for.
func (n *Node) electAlone() {
	all := voters(n.servers())
	if len(all) == 1 && all[0].ID == n.id() && n.raft.State() == raft.Follower {
		n.transport.stand()
	}
}

// outOf says whether a leader of this node's cluster counts it among the removed.
func (n *Node) outOf(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	asked := map[string]bool{n.config.NodeID: true}
	type outcome struct {
		removed bool
		err     error
	}
	answers, count := make(chan outcome), 0
	ask := func(name string, request func() (controlAnswer, error)) {
		asked[name] = true
		count++
		go func() {
			said, err := request()
			answers <- outcome{err == nil && said.Report != nil && said.Report.Caller == standsRemoved, err}
		}()
	}
	for _, s := range n.servers() {
		if s.ID != n.id() {
			ask(nameOf(s.ID), func() (controlAnswer, error) { return n.askMember(ctx, s.ID, controlRequest{Verb: verbReport}) })
		}
	}
	for _, p := range n.config.Peers { // those who came after this node's configuration
		if !asked[p.ID] {
			ask(p.ID, func() (controlAnswer, error) { return n.askAddr(ctx, p, controlRequest{Verb: verbReport}) })
		}
	}
	removed, refused := false, ""
	for range count {
		o := <-answers
		removed = removed || o.removed
		if errors.Is(o.err, errRefused) {
			refused = o.err.Error()
		}
	}
	n.waiting.Store(&refused)
	return removed
}

// leave remembers that the cluster goes on without this directory.
func (n *Node) leave() error {
	return n.note(func(id *identity) { id.Removed = true })
}
