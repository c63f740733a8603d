package switchover

import (
	"sync"

	"github.com/cpnode/cpnode/ops"
)

// queue is a set of partitions that wait for something to be done: at once, or once more
// after a pause. Its lock is the last one taken.
type queue struct {
	mu    sync.Mutex
	ready map[ops.LogRef]struct{}
	again map[ops.LogRef]struct{} // tried, and waiting for the next interval
	kick  chan struct{}
}

func newQueue() *queue {
	return &queue{ready: map[ops.LogRef]struct{}{}, again: map[ops.LogRef]struct{}{}, kick: make(chan struct{}, 1)}
}

// add queues a partition for now, unless it waits for its next try.
func (q *queue) add(ref ops.LogRef) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, waits := q.again[ref]; waits {
		return
	}
	q.ready[ref] = struct{}{}
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// retry queues a partition for the next interval.
func (q *queue) retry(ref ops.LogRef) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.again[ref] = struct{}{}
}

// wake makes those that wait for the next interval ready.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ref := range q.again {
		q.ready[ref] = struct{}{}
	}
	clear(q.again)
}

// take empties the queue of those that are ready. Whoever is added from then on is there
// next time, so nothing that happens during the work is missed.
func (q *queue) take() []ops.LogRef {
	q.mu.Lock()
	defer q.mu.Unlock()
	refs := make([]ops.LogRef, 0, len(q.ready))
	for ref := range q.ready {
		refs = append(refs, ref)
	}
	clear(q.ready)
	return refs
}

func (q *queue) holds(ref ops.LogRef) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ready := q.ready[ref]
	_, again := q.again[ref]
	return ready || again
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.ready)
	for ref := range q.again {
		if _, both := q.ready[ref]; !both {
			n++
		}
	}
	return n
}

// signal tells any number of waiters that they are to look again.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed by the next announcement.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
