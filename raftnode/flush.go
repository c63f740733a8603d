package raftnode

import (
	"context"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// flushDelay is how long answered entries wait for others to share their
// transaction, unless somebody waits to read them: stale reads of followers see them
// that much later. See docs/performance.md for what it saves.
const flushDelay = 20 * time.Millisecond

// flusher ends the state machine's open transaction in time.
type flusher struct {
	held, urgent chan struct{} // of one element
	stop         chan struct{} // closed when raft has ended
}

func newFlusher() flusher {
	return flusher{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})}
}

// hold is fsm.Owner's Held.
func (f flusher) hold(urgent bool) {
	ch := f.held
	if urgent {
		ch = f.urgent
	}
	select {
	case ch <- struct{}{}:
	default:
	}
}

// flushState runs until raft has ended, which is later than the node's context: what
// raft waits for when it ends can itself wait for the open transaction.
func (n *Node) flushState() {
	wait := n.starve("entries", &n.space.apply)
	for {
		select {
		case <-n.flusher.urgent:
		case <-n.flusher.held:
			select {
			case <-n.flusher.urgent:
			case <-time.After(flushDelay):
			case <-n.flusher.stop:
				return
			}
		case <-n.flusher.stop:
			return
		}
		for err := n.fsm.Flush(); store.NoSpace(err) && wait(err); {
			if err = n.fsm.Flush(); err == nil {
				wait(nil)
			}
		}
	}
}

// viewAnswered reads a state that has every write that this node has answered.
func (n *Node) viewAnswered(ctx context.Context) ops.Reader {
	return func(fn func(*store.ReadTx) error) error {
		wait, cancel := context.WithTimeout(ctx, n.config.ReadTimeout)
		defer cancel()
		if err := n.fsm.Wait(wait, n.fsm.Answered()); err != nil {
			return n.readError(ctx, err)
		}
		return n.view(fn)
	}
}
