package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// confirmFunc returns nil once it is known that this node led in l's term at some
// moment after the call began.
type confirmFunc func(ctx context.Context, n *Node, l *leadership) error

// confirmer shares confirmations of leadership: one round serves all who asked
// before it began.
type confirmer struct {
	node    *Node
	confirm confirmFunc

	mu   sync.Mutex
	next *round // takes those who ask; nil when nobody does
	wake chan struct{}

	askersMu sync.Mutex
	askers   map[raft.ServerID]*asker
}

// round is one confirmation.
type round struct {
	done   chan struct{} // closed when the rest is set
	leads  *leadership
	commit uint64 // commit index noted when the round began
	err    error
}

func newConfirmer(n *Node, confirm confirmFunc) *confirmer {
	if confirm == nil {
		confirm = askMajority
	}
	return &confirmer{node: n, confirm: confirm, wake: make(chan struct{}, 1), askers: map[raft.ServerID]*asker{}}
}

// lead waits for a confirmation that began after this call and returns its round,
// without error.
func (c *confirmer) lead(ctx context.Context) (*round, error) {
	r := c.join()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.node.ctx.Done():
		return nil, errShuttingDown
	}
}

func (c *confirmer) join() *round {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &round{done: make(chan struct{})}
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return c.next
}

// begin takes the round that waits: from here on, who asks is in the next one.
func (c *confirmer) begin() *round {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.next
	c.next = nil
	return r
}

// run carries out rounds until ctx ends.
func (c *confirmer) run(ctx context.Context) {
	for {
		select {
		case <-c.wake:
			c.carryOut(c.begin())
		case <-ctx.Done():
			return
		}
	}
}

func (c *confirmer) carryOut(r *round) {
	defer close(r.done)
	start := time.Now()
	if r.leads = c.node.leading(); r.leads == nil {
		r.err = ErrNotLeader
		return
	}
	r.commit = c.node.raft.CommitIndex()
	ctx, cancel := context.WithTimeout(r.leads.ctx, c.node.config.ReadTimeout)
	defer cancel()
	r.err = c.confirm(ctx, c.node, r.leads)
	c.node.metrics.confirmed(time.Since(start), r.err)
}

// askMajority asks the other voters for their terms until, with this node, a
// majority is in no later term than l. A voter that votes for another leader is in
// a later term before it does, so no other leader was elected before the question.
func askMajority(ctx context.Context, n *Node, l *leadership) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := voters(n.servers())
	answers := make(chan uint64, len(all))
	for _, s := range all {
		if s.ID != n.id() {
			n.confirmer.asker(s.ID).ask(&question{ctx: ctx, answer: func(term uint64) { answers <- term }})
		}
	}
	for missing := len(all) / 2; missing > 0; missing-- {
		select {
		case term := <-answers:
			if term > l.term {
				return ErrNotLeader
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: a majority did not confirm it", ErrNotLeader)
		}
	}
	return nil
}

// asker is the one that asks the node with the id.
func (c *confirmer) asker(id raft.ServerID) *asker {
	c.askersMu.Lock()
	defer c.askersMu.Unlock()
	a := c.askers[id]
	if a == nil {
		a = newAsker(c.node.dialer(id, kindTerm))
		c.askers[id] = a
		c.node.run(func() { a.run(c.node.ctx) })
	}
	return a
}
