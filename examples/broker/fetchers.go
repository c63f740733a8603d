package main

import (
	"context"
	"sync"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// fetchers fill local logs: from leaders, and from diskless storage.
type fetchers struct {
	broker        *broker
	classic       tasks
	consolidation tasks
}

var _ switchover.Fetchers = (*fetchers)(nil)

// StartClassic implements switchover.Fetchers.
func (f *fetchers) StartClassic(ref ops.LogRef, leader, leaderEpoch int32) {
	c := classicFetch{f.broker, ref, leader, leaderEpoch}
	f.classic.start(ref, c, c.run)
}

// StopClassic implements switchover.Fetchers.
func (f *fetchers) StopClassic(ref ops.LogRef) { f.classic.stop(ref) }

// StartConsolidation implements switchover.Fetchers.
func (f *fetchers) StartConsolidation(ref ops.LogRef, rebuild bool) {
	c := consolidation{f.broker, ref, rebuild}
	f.consolidation.start(ref, c, c.run)
}

// StopConsolidation implements switchover.Fetchers.
func (f *fetchers) StopConsolidation(ref ops.LogRef) { f.consolidation.stop(ref) }

func (f *fetchers) close() {
	f.classic.close()
	f.consolidation.close()
}

// tasks run in the background, one for a partition.
type tasks struct {
	mu      sync.Mutex
	running map[ops.LogRef]*task
	closed  bool
	all     sync.WaitGroup
}

type task struct {
	what   any // comparable
	cancel context.CancelFunc
	done   chan struct{}
}

func (t *task) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// start runs a task, unless the same runs already; another one is stopped before. What run
// returns, if anything, is called when the task is over: a call of it that leads to another
// start finds that it can be.
func (t *tasks) start(ref ops.LogRef, what any, run func(context.Context) (afterwards func())) {
	if old := t.get(ref); old != nil && old.what == what && !old.over() {
		return
	}
	t.stop(ref)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	started := &task{what, cancel, make(chan struct{})}
	if t.running == nil {
		t.running = map[ops.LogRef]*task{}
	}
	t.running[ref] = started
	t.all.Go(func() {
		afterwards := run(ctx)
		cancel()
		close(started.done)
		if afterwards != nil {
			afterwards()
		}
	})
}

func (t *tasks) get(ref ops.LogRef) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running[ref]
}

// stop ends a task, and waits for it.
func (t *tasks) stop(ref ops.LogRef) {
	t.mu.Lock()
	old := t.running[ref]
	delete(t.running, ref)
	t.mu.Unlock()
	if old != nil {
		old.cancel()
		<-old.done
	}
}

// close ends all tasks, and lets no other start.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	for _, running := range t.running {
		running.cancel()
	}
	t.mu.Unlock()
	t.all.Wait()
}
