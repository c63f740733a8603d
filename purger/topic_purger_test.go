package purger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

func (w *world) purgeCycles() float64 { return w.finished("topic_purger") }

// failingPlane refuses calls while err is set.
type failingPlane struct {
	*world
	err atomic.Pointer[ops.Error]
}

func (p *failingPlane) PurgeDeletedLogs(ctx context.Context, r *ops.PurgeDeletedLogsRequest, o ...api.Option) (*ops.PurgeDeletedLogsResponse, error) {
	if err := p.err.Load(); err != nil {
		return nil, err
	}
	return p.world.PurgeDeletedLogs(ctx, r, o...)
}

// TestTopicPurgerPaces drains two topics in capped cycles: a tenth of the interval after
// each that was saturated, the whole interval else.
func TestTopicPurgerPaces(t *testing.T) {
	w := newWorld(t)
	for _, n := range []byte{1, 2} {
		w.create(n)
		for i := range 25 {
			w.commit(nil, fmt.Sprintf("%d/%d", n, i), n)
		}
	}
	w.delete(1)
	w.clock.Advance(time.Second)
	w.delete(2)
	p := NewTopicPurger(TopicPurgerConfig{Interval: time.Minute, MaxBatchesPerCycle: 20}, w, w.read, w.deps())
	require.Zero(t, w.metric("topic_purger_oldest_waiting_age_seconds"))
	w.run(p.Run)

	w.eventually(func() bool { return w.purgeCycles() == 1 }, "begins at once")
	require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
	require.EqualValues(t, 20, w.metric("topic_purger_batches_total"))
	require.EqualValues(t, 1, w.metric("topic_purger_work_remains"))
	require.EqualValues(t, 1, w.metric("topic_purger_oldest_waiting_age_seconds"))
	w.waits(w.purgeCycles, 6*time.Second)
	require.EqualValues(t, 40, w.metric("topic_purger_batches_total"))
	require.EqualValues(t, 1, w.metric("topic_purger_logs_total"))
	require.EqualValues(t, 6, w.metric("topic_purger_oldest_waiting_age_seconds"), "of the second topic")
	w.waits(w.purgeCycles, 6*time.Second)
	require.EqualValues(t, 50, w.metric("topic_purger_batches_total"))
	require.EqualValues(t, 2, w.metric("topic_purger_logs_total"))
	require.EqualValues(t, 50, w.metric("topic_purger_files_marked_total"))
	require.EqualValues(t, 2, w.metric("topic_purger_saturated_cycles_total"))
	require.Zero(t, w.metric("topic_purger_work_remains"))
	require.Zero(t, w.metric("topic_purger_oldest_waiting_age_seconds"))
	require.Equal(t, float64(w.clock.Now().UnixMilli())/1000, w.metric("topic_purger_last_success_timestamp_seconds"))

	last := w.node.Status().LastIndex
	for range 60 { // a virtual hour
		w.waits(w.purgeCycles, time.Minute)
	}
	require.Equal(t, last, w.node.Status().LastIndex, "an idle purger proposes nothing")
	require.Zero(t, w.metric("topic_purger_errors_total"))
}

// TestTopicPurgerUncapped takes all in one cycle, which then is not saturated.
func TestTopicPurgerUncapped(t *testing.T) {
	w := newWorld(t)
	w.create(1)
	for i := range 45 {
		w.commit(nil, fmt.Sprint(i), 1)
	}
	w.delete(1)
	p := NewTopicPurger(TopicPurgerConfig{Interval: time.Minute}, w, nil, w.deps())
	totals, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ops.PurgeDeletedLogsResponse{BatchesDeleted: 45, LogsPurged: 1, FilesMarked: 45}, totals)
	require.Zero(t, w.metric("topic_purger_saturated_cycles_total"))
	require.Contains(t, w.log.String(), "batches=45 logs=1 files_marked=45")
}

// TestTopicPurgerBacksOff: failures wait longer and longer, say so once, and end by
// themselves.
func TestTopicPurgerBacksOff(t *testing.T) {
	w := newWorld(t)
	plane := &failingPlane{world: w}
	plane.err.Store(ops.Errorf(ops.NoLeader, "nobody leads"))
	p := NewTopicPurger(TopicPurgerConfig{Interval: time.Hour, MaxBatchesPerCycle: 20}, plane, w.read, w.deps())
	w.run(p.Run)
	w.eventually(func() bool { return w.purgeCycles() == 1 }, "begins at once")
	for _, pause := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
		require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
		require.Equal(t, (pause * time.Millisecond).Seconds(), w.metric("topic_purger_backoff_seconds"))
		w.waits(w.purgeCycles, pause*time.Millisecond) // jitter is 0, so half of the longest
	}
	require.EqualValues(t, 13, w.metric("topic_purger_unavailable_total"))
	require.Zero(t, w.metric("topic_purger_errors_total"))
	require.Equal(t, 1, strings.Count(w.log.String(), "level=INFO"), w.log.String())
	plane.err.Store(nil)
	w.waits(w.purgeCycles, 30*time.Second)
	require.Zero(t, w.metric("topic_purger_backoff_seconds"))
	require.Contains(t, w.log.String(), "works again")
	w.waits(w.purgeCycles, time.Hour)
}

func TestPace(t *testing.T) {
	require.Equal(t, time.Minute, pace(time.Minute, false))
	require.Equal(t, 6*time.Second, pace(time.Minute, true))
	require.Equal(t, time.Second, pace(2*time.Second, true), "at least a second")
	require.Equal(t, 100*time.Millisecond, pace(100*time.Millisecond, true), "never longer than the interval")
}

// breakingPlane fails from a call on.
type breakingPlane struct {
	*world
	calls int
}

func (p *breakingPlane) PurgeDeletedLogs(ctx context.Context, r *ops.PurgeDeletedLogsRequest, o ...api.Option) (*ops.PurgeDeletedLogsResponse, error) {
	if p.calls--; p.calls < 0 {
		return nil, ops.Errorf(ops.OutcomeUnknown, "lost")
	}
	r.MaxBatches = min(r.MaxBatches, 10) // so that a small world has a cycle of several calls
	return p.world.PurgeDeletedLogs(ctx, r, o...)
}

// TestTopicPurgerKeepsWhatWasDone: what the calls before a failure did is in the totals
// and the metrics; the next cycle goes on.
func TestTopicPurgerKeepsWhatWasDone(t *testing.T) {
	w := newWorld(t)
	w.create(1)
	for i := range 45 {
		w.commit(nil, fmt.Sprint(i), 1)
	}
	w.delete(1)
	w.clock.Advance(time.Second)
	plane := &breakingPlane{world: w, calls: 2}
	p := NewTopicPurger(TopicPurgerConfig{Interval: time.Minute, MaxBatchesPerCycle: 35}, plane, w.read, w.deps())
	totals, err := p.RunOnce(t.Context())
	require.ErrorIs(t, err, &ops.Error{Code: ops.OutcomeUnknown})
	require.Equal(t, ops.PurgeDeletedLogsResponse{BatchesDeleted: 20, FilesMarked: 20, MoreRemain: true}, totals)
	require.EqualValues(t, 20, w.metric("topic_purger_batches_total"))
	require.EqualValues(t, 1, w.metric("topic_purger_work_remains"))
	require.EqualValues(t, 1, w.metric("topic_purger_oldest_waiting_age_seconds"))

	plane.calls = 100
	totals, err = p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ops.PurgeDeletedLogsResponse{BatchesDeleted: 25, LogsPurged: 1, FilesMarked: 25}, totals)
	require.EqualValues(t, 45, w.metric("topic_purger_batches_total"))
}

// TestTopicPurgerCapOfSeveralCalls: the cap is that of the cycle, whatever its calls take.
func TestTopicPurgerCapOfSeveralCalls(t *testing.T) {
	w := newWorld(t)
	w.create(1)
	for i := range 45 {
		w.commit(nil, fmt.Sprint(i), 1)
	}
	w.delete(1)
	p := NewTopicPurger(TopicPurgerConfig{Interval: time.Minute, MaxBatchesPerCycle: 25}, &breakingPlane{world: w, calls: 3}, nil, w.deps())
	totals, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ops.PurgeDeletedLogsResponse{BatchesDeleted: 25, FilesMarked: 25, MoreRemain: true, CapReached: true}, totals)
}

// hangingPlane never answers.
type hangingPlane struct{ begun chan struct{} }

func (p hangingPlane) PurgeDeletedLogs(ctx context.Context, _ *ops.PurgeDeletedLogsRequest, _ ...api.Option) (*ops.PurgeDeletedLogsResponse, error) {
	p.begun <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestStopsMidCycle: the end of leadership ends a cycle, which counts as neither, and
// leaves no gauge behind; a cycle that waits for its turn ends too.
func TestStopsMidCycle(t *testing.T) {
	w := newWorld(t)
	plane := hangingPlane{make(chan struct{})}
	p := NewTopicPurger(DefaultTopicPurgerConfig(), plane, nil, w.deps())
	p.backlog.left(true, 1)
	stop := w.run(p.Run)
	<-plane.begun

	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { _, err := p.RunOnce(ctx); second <- err }()
	cancel()
	require.True(t, errors.Is(<-second, context.Canceled))

	stop()
	require.Zero(t, w.purgeCycles())
	require.Zero(t, w.metric("topic_purger_errors_total"))
	require.Zero(t, w.metric("topic_purger_work_remains"))
	require.Zero(t, w.metric("topic_purger_oldest_waiting_age_seconds"))
	require.NotContains(t, w.log.String(), "fails")
}

func TestConfigs(t *testing.T) {
	purge, clean := DefaultTopicPurgerConfig(), DefaultFileCleanerConfig()
	require.NoError(t, purge.Validate())
	require.NoError(t, clean.Validate())
	require.ErrorContains(t, (&TopicPurgerConfig{}).Validate(), "Interval")
	require.ErrorContains(t, (&TopicPurgerConfig{Interval: 1, MaxBatchesPerCycle: -1}).Validate(), "MaxBatchesPerCycle")
	for field, change := range map[string]func(*FileCleanerConfig){
		"Interval":         func(c *FileCleanerConfig) { c.Interval = 0 },
		"Retention":        func(c *FileCleanerConfig) { c.Retention = -1 },
		"MaxFilesPerCycle": func(c *FileCleanerConfig) { c.MaxFilesPerCycle = -1 },
		"StoreTimeout":     func(c *FileCleanerConfig) { c.StoreTimeout = 0 },
		"BatchFiles":       func(c *FileCleanerConfig) { c.BatchFiles = 0 },
	} {
		c := DefaultFileCleanerConfig()
		change(&c)
		require.ErrorContains(t, c.Validate(), field)
	}
}
