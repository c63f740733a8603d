package raftnode

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// leadership is one term of this node as leader, from its barrier on: the state
// holds everything that earlier terms committed.
type leadership struct {
	term uint64
	ctx  context.Context // ends with it
}

const (
	barrierTimeout = 5 * time.Second // to be queued
	barrierRetry   = 50 * time.Millisecond
)

// lead follows raft's notices of leadership until they end. It never blocks for
// long: raft waits for it.
func (n *Node) lead(notices <-chan bool) {
	end := func() {} // ends the present leadership
	defer func() { end() }()
	for {
		select {
		case leads := <-notices:
			end()
			n.leads.Store(nil)
			if !leads {
				n.logger.Info("no longer the leader")
				continue
			}
			ctx, cancel := context.WithCancel(n.ctx)
			end = cancel
			n.run(func() { n.takeOver(ctx) })
		case <-n.ctx.Done():
			n.leads.Store(nil)
			return
		}
	}
}

// takeOver waits until the state holds all that was committed before and a majority's
// clocks are known to be near this node's, and opens the node for writes and
// linearizable reads. A barrier that fails is tried again
// as long as raft says that this node leads: a leader that never opens would be a
// dead one.
func (n *Node) takeOver(ctx context.Context) {
	defer n.polls.reset()
	for ctx.Err() == nil && n.raft.State() == raft.Leader {
		term := n.raft.CurrentTerm()
		if n.missing.Load() != nil {
			n.pollMembers(ctx) // one of them is to lead instead
		}
		err := await(ctx, func() error { return n.raft.Barrier(barrierTimeout).Error() })
		if err == nil {
			err = n.awaitClocks(ctx)
		}
		if err == nil {
			err = await(ctx, n.awaitState) // a barrier does not wait for it
		}
		if err == nil {
			err = n.found(ctx)
		}
		if err == nil && n.raft.CurrentTerm() == term && n.raft.State() == raft.Leader && ctx.Err() == nil {
			l := &leadership{term: term, ctx: ctx}
			n.leads.Store(l)
			if ctx.Err() != nil { // lost meanwhile, and cleared before it was set
				n.leads.CompareAndSwap(l, nil)
				return
			}
			n.Staleness() // none, from here on
			n.logger.Info("leader", "term", term)
			n.run(func() { n.proposeCheckpoints(ctx) })
			n.run(func() { n.finishWalks(ctx) })
			n.run(func() { n.keepHistory(ctx) })
			n.beginDuties(l)
			n.manage(ctx)
			return
		}
		if err != nil {
			n.logger.Warn("cannot take over yet", "term", term, "error", err)
		}
		select {
		case <-time.After(barrierRetry):
		case <-ctx.Done():
		}
	}
}

// await waits for fn, which calls raft, or until ctx ends: raft leaves some of its
// futures without an answer when it is shut down.
func await(ctx context.Context, fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leading is this node's present leadership, or nil.
func (n *Node) leading() *leadership {
	l := n.leads.Load()
	if l == nil || !n.holds(l) {
		return nil
	}
	return l
}

// holds says whether this node still leads in l's term, as far as it knows.
func (n *Node) holds(l *leadership) bool {
	return n.raft.State() == raft.Leader && !n.transport.layer.isMute() && n.raft.CurrentTerm() == l.term && n.log.term.Load() == l.term
}
