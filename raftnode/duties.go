package raftnode

import (
	"context"
	"sync"
)

// duties are the functions that run while this node leads.
type duties struct {
	mu   sync.Mutex
	all  []*duty
	over context.Context // ends when the node is being closed
	end  context.CancelFunc
}

type duty struct {
	fn    func(context.Context)
	begun *leadership // the last it was begun for
	turn  sync.Mutex  // held while fn runs
}

func newDuties(ctx context.Context) *duties {
	over, end := context.WithCancel(ctx)
	return &duties{over: over, end: end}
}

// WhileLeading calls fn each time this node has become the leader and its state holds
// all that was committed before; at once when it leads now. fn runs in a goroutine of
// its own and returns soon after its context ended, which is when leadership ends or
// the node is closed: Close waits for it. Until it has returned it is not called again.
// Two nodes may run theirs at the same time for a moment, since the one that has lost
// leadership hears of it last. On a node that is being closed nothing happens.
func (n *Node) WhileLeading(fn func(ctx context.Context)) {
	n.duties.mu.Lock()
	defer n.duties.mu.Unlock()
	d := &duty{fn: fn}
	n.duties.all = append(n.duties.all, d)
	if l := n.leads.Load(); l != nil {
		n.beginDuty(d, l)
	}
}

// beginDuties begins what is to be done in a leadership.
func (n *Node) beginDuties(l *leadership) {
	n.duties.mu.Lock()
	defer n.duties.mu.Unlock()
	for _, d := range n.duties.all {
		n.beginDuty(d, l)
	}
}

// beginDuty begins one, once in a leadership. The caller holds the lock, so that
// nothing is begun after endDuties.
func (n *Node) beginDuty(d *duty, l *leadership) {
	if d.begun == l || n.duties.over.Err() != nil {
		return
	}
	d.begun = l
	n.run(func() { n.duties.carryOut(d, l.ctx) })
}

func (s *duties) carryOut(d *duty, ctx context.Context) {
	d.turn.Lock()
	defer d.turn.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.over, cancel)()
	if ctx.Err() == nil {
		d.fn(ctx)
	}
}

// endDuties lets all end, and none begin any more.
func (n *Node) endDuties() {
	n.duties.mu.Lock()
	defer n.duties.mu.Unlock()
	n.duties.end()
}
