package purger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/purger/objectstore/s3test"
)

func (w *world) cleanCycles() float64 { return w.finished("file_cleaner") }

func (w *world) cleaner(objects objectstore.Store, change func(*FileCleanerConfig)) *FileCleaner {
	c := DefaultFileCleanerConfig()
	if change != nil {
		change(&c)
	}
	require.NoError(w.t, c.Validate())
	return NewFileCleaner(c, w, objects, w.deps())
}

// TestFileCleanerGrace deletes the objects that nobody refers to, no sooner than the
// retention after they were marked, and no others.
func TestFileCleanerGrace(t *testing.T) {
	for name, objects := range map[string]func(t *testing.T) objectstore.Store{
		"memory":    func(*testing.T) objectstore.Store { return objectstore.NewMemory(nil) },
		"directory": func(t *testing.T) objectstore.Store { return openDirectory(t) },
		"s3": func(t *testing.T) objectstore.Store {
			if testing.Short() {
				t.Skip("-short: starts an S3 server process")
			}
			s, err := objectstore.OpenS3(t.Context(), s3test.Start(t).Bucket(t, "objects"))
			require.NoError(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) { fileCleanerGrace(t, objects(t)) })
	}
}

func fileCleanerGrace(t *testing.T, objects objectstore.Store) {
	w := newWorld(t)
	w.create(1)
	w.create(2)
	w.commit(objects, "shared", 1, 2)
	w.commit(objects, "alone", 1)
	w.commit(objects, "other", 2)
	require.NoError(t, objects.Put(t.Context(), "unknown", strings.NewReader(""), 0))
	c := w.cleaner(objects, nil)
	clean := func(want CleanTotals, left ...string) {
		t.Helper()
		want.oldestLeft = none
		totals, err := c.RunOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, totals)
		require.Equal(t, left, keysOf(t, objects))
	}
	clean(CleanTotals{}, "alone", "other", "shared", "unknown")
	w.delete(1)
	clean(CleanTotals{}, "alone", "other", "shared", "unknown")
	_, err := w.PurgeDeletedLogs(t.Context(), &ops.PurgeDeletedLogsRequest{})
	require.NoError(t, err)
	w.clock.Advance(time.Minute)
	clean(CleanTotals{}, "alone", "other", "shared", "unknown") // marked a minute ago is not before it
	w.clock.Advance(time.Millisecond)
	clean(CleanTotals{ObjectsDeleted: 1, BytesDeleted: 5, FilesForgotten: 1}, "other", "shared", "unknown")
	require.Equal(t, map[string]bool{"other": true, "shared": true}, w.files())
	clean(CleanTotals{}, "other", "shared", "unknown")

	w.delete(2)
	_, err = w.PurgeDeletedLogs(t.Context(), &ops.PurgeDeletedLogsRequest{})
	require.NoError(t, err)
	w.clock.Advance(time.Minute + time.Millisecond)
	clean(CleanTotals{ObjectsDeleted: 2, BytesDeleted: 11, FilesForgotten: 2}, "unknown")
	require.Empty(t, w.files())
	require.EqualValues(t, 3, w.metric("file_cleaner_files_total"))
	require.EqualValues(t, 16, w.metric("file_cleaner_deleted_bytes_total"))
}

// TestFileCleanerCap tells exactly full from saturated, takes the oldest first and in
// bounded batches, and hurries while it is saturated.
func TestFileCleanerCap(t *testing.T) {
	w := newWorld(t)
	objects := &faulty{Store: openDirectory(t), clock: w.clock}
	w.marked(objects, 25)
	w.clock.Advance(time.Hour)
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.MaxFilesPerCycle, c.BatchFiles = 10, 4 })
	w.run(c.Run)
	w.eventually(func() bool { return w.cleanCycles() == 1 }, "begins at once")
	require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
	require.EqualValues(t, 10, w.metric("file_cleaner_files_total"))
	require.EqualValues(t, 3, objects.calls.Load())
	require.EqualValues(t, 1, w.metric("file_cleaner_work_remains"))
	require.EqualValues(t, 3600, w.metric("file_cleaner_oldest_waiting_age_seconds"))
	w.waits(w.cleanCycles, 12*time.Second)
	require.EqualValues(t, 20, w.metric("file_cleaner_files_total"))
	w.waits(w.cleanCycles, 12*time.Second)
	require.EqualValues(t, 25, w.metric("file_cleaner_files_total"))
	require.EqualValues(t, 2, w.metric("file_cleaner_saturated_cycles_total"))
	require.Zero(t, w.metric("file_cleaner_work_remains"))
	require.Zero(t, w.metric("file_cleaner_oldest_waiting_age_seconds"))
	require.Empty(t, keysOf(t, objects))

	last := w.node.Status().LastIndex
	for range 30 { // a virtual hour
		w.waits(w.cleanCycles, 2*time.Minute)
	}
	require.Equal(t, last, w.node.Status().LastIndex, "an idle cleaner proposes nothing")
}

func TestFileCleanerExactlyFull(t *testing.T) {
	w := newWorld(t)
	objects := openDirectory(t)
	w.marked(objects, 10)
	w.clock.Advance(time.Hour)
	totals, err := w.cleaner(objects, func(c *FileCleanerConfig) { c.MaxFilesPerCycle = 10 }).RunOnce(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, totals.FilesForgotten)
	require.False(t, totals.CapReached)
	require.Zero(t, w.metric("file_cleaner_saturated_cycles_total"))
}

// TestFileCleanerUncapped takes all in one cycle.
func TestFileCleanerUncapped(t *testing.T) {
	w := newWorld(t)
	objects := openDirectory(t)
	w.marked(objects, 25)
	w.clock.Advance(time.Hour)
	totals, err := w.cleaner(objects, func(c *FileCleanerConfig) { c.MaxFilesPerCycle = 0 }).RunOnce(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 25, totals.FilesForgotten)
	require.False(t, totals.CapReached)
}

// TestFileCleanerFaults breaks the store in every way, one after the other. Whatever it
// does, no file is forgotten while its object is there or was not confirmed; and once
// the store is whole, all go by themselves.
func TestFileCleanerFaults(t *testing.T) {
	w := newWorld(t)
	directory := openDirectory(t)
	objects := &faulty{Store: directory, clock: w.clock}
	keys := w.marked(objects, 40)
	w.clock.Advance(time.Hour)
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.MaxFilesPerCycle, c.BatchFiles = 20, 5 })
	consistent := func() {
		t.Helper()
		known := w.files()
		for _, key := range keysOf(t, directory) {
			require.True(t, known[key], "%s was forgotten with its object there", key)
		}
	}
	for _, step := range []struct {
		fault     fault
		confirmed int64
		failed    int64
	}{{refusing, 0, 20}, {partial, 12, 8}, {lost, 0, 20}, {healthy, 8, 0}} {
		objects.set(step.fault)
		before := len(w.files())
		totals, err := c.RunOnce(t.Context())
		require.Equal(t, step.failed > 0, err != nil, "fault %d: %v", step.fault, err)
		require.Equal(t, step.confirmed, totals.ObjectsDeleted, "fault %d", step.fault)
		require.Equal(t, step.confirmed, totals.FilesForgotten, "fault %d", step.fault)
		require.Equal(t, step.failed, totals.ObjectsFailed, "fault %d", step.fault)
		require.Len(t, w.files(), before-int(step.confirmed))
		consistent()
		if err != nil {
			require.ErrorIs(t, err, errFault)
			require.EqualValues(t, 1, w.metric("file_cleaner_work_remains"))
			require.Greater(t, w.metric("file_cleaner_oldest_waiting_age_seconds"), 3599.)
		}
	}
	require.EqualValues(t, 3, w.metric("file_cleaner_errors_total"))
	require.EqualValues(t, 48, w.metric("file_cleaner_objects_failed_total"))
	totals, err := c.RunOnce(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 40-20, totals.FilesForgotten, "those that were tried before are passed over once")
	require.Empty(t, w.files())
	require.Empty(t, keysOf(t, directory))
	require.Len(t, keys, 40)
}

// TestFileCleanerStuckObjects: objects that cannot be deleted do not hold up the others,
// not even where a whole batch is refused.
func TestFileCleanerStuckObjects(t *testing.T) {
	w := newWorld(t)
	objects := &faulty{Store: openDirectory(t), clock: w.clock}
	w.marked(objects, 9)
	w.clock.Advance(time.Hour)
	objects.set(stuck)
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.BatchFiles = 1 })
	totals, err := c.RunOnce(t.Context())
	require.ErrorIs(t, err, errFault)
	require.EqualValues(t, 6, totals.FilesForgotten)
	require.EqualValues(t, 3, totals.ObjectsFailed)
	require.Equal(t, map[string]bool{"wal/0/000": true, "wal/0/003": true, "wal/0/006": true}, w.files())
	require.Equal(t, []string{"wal/0/000", "wal/0/003", "wal/0/006"}, keysOf(t, objects))
}

// TestFileCleanerBlockedHead: as many undeletable objects as the cap, and more, do not
// hold up those behind them for ever, and are tried again.
func TestFileCleanerBlockedHead(t *testing.T) {
	w := newWorld(t)
	objects := &faulty{Store: openDirectory(t), clock: w.clock}
	w.marked(objects, 18) // every third lies under wal/0/
	w.clock.Advance(time.Hour)
	first := w.cleaner(objects, nil)
	objects.set(stuck)
	_, err := first.RunOnce(t.Context())
	require.ErrorIs(t, err, errFault)
	blocked := w.files()
	require.Len(t, blocked, 6)
	w.create(3)
	for i := range 5 {
		w.commit(objects, fmt.Sprintf("young/%d", i), 3)
	}
	w.delete(3)
	_, err = w.PurgeDeletedLogs(t.Context(), &ops.PurgeDeletedLogsRequest{})
	require.NoError(t, err)
	w.clock.Advance(time.Hour)

	c := w.cleaner2(objects, func(c *FileCleanerConfig) { c.MaxFilesPerCycle = 2 })
	for range 3 {
		totals, err := c.RunOnce(t.Context())
		require.ErrorIs(t, err, errFault)
		require.EqualValues(t, 2, totals.ObjectsFailed)
	}
	for _, want := range []CleanTotals{
		{ObjectsDeleted: 2, FilesForgotten: 2, CapReached: true}, {ObjectsDeleted: 2, FilesForgotten: 2, CapReached: true}, {ObjectsDeleted: 1, FilesForgotten: 1},
	} {
		totals, err := c.RunOnce(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, int64(none), totals.oldestLeft, "the blocked ones are left, so the next cycle comes soon")
		want.BytesDeleted, want.oldestLeft = 7*want.ObjectsDeleted, totals.oldestLeft
		require.Equal(t, want, totals)
	}
	require.Equal(t, blocked, w.files())
	objects.set(healthy)
	for range 3 {
		totals, err := c.RunOnce(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, totals.FilesForgotten, "they are tried again")
	}
	require.Empty(t, w.files())
	require.Empty(t, keysOf(t, objects))
}

// TestFileCleanerBlockedBeyondAList: more undeletable objects than can be listed only to be
// passed over do not hold up the others either.
func TestFileCleanerBlockedBeyondAList(t *testing.T) {
	w := newWorld(t)
	objects := &faulty{Store: openDirectory(t), clock: w.clock}
	w.marked(objects, 18) // every third lies under wal/0/
	w.clock.Advance(time.Hour)
	objects.set(stuck)
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.MaxFilesPerCycle, c.PassedOver = 2, 3 })
	blocked := map[string]bool{}
	for i := range 6 {
		blocked[fmt.Sprintf("wal/0/%03d", 3*i)] = true
	}
	for cycle := 0; len(w.files()) > len(blocked); cycle++ {
		require.Less(t, cycle, 30, "the others wait for ever: %v", w.files())
		if _, err := c.RunOnce(t.Context()); err != nil {
			require.ErrorIs(t, err, errFault)
		}
	}
	require.Equal(t, blocked, w.files())
	objects.set(healthy)
	for cycle := 0; len(w.files()) > 0; cycle++ {
		require.Less(t, cycle, 30, "they are not tried again: %v", w.files())
		_, err := c.RunOnce(t.Context())
		require.NoError(t, err)
	}
	require.Empty(t, keysOf(t, objects))
}

// smallAnswers is a control plane whose answers hold 8 rows.
type smallAnswers struct{ *world }

func (p smallAnswers) GetFilesToDelete(ctx context.Context, r *ops.GetFilesToDeleteRequest, o ...api.Option) (*ops.GetFilesToDeleteResponse, error) {
	cut := *r
	cut.Limit = min(r.Limit, 8)
	return p.world.GetFilesToDelete(ctx, &cut, o...)
}

// TestFileCleanerCapBeyondAnAnswer: a cap that no answer holds is reached all the same, and
// what is behind it is seen.
func TestFileCleanerCapBeyondAnAnswer(t *testing.T) {
	w := newWorld(t)
	objects := openDirectory(t)
	w.marked(objects, 30)
	w.clock.Advance(time.Hour)
	config := DefaultFileCleanerConfig()
	config.MaxFilesPerCycle = 20
	limits := ops.DefaultLimits()
	limits.AnswerRows, limits.Items = 8, 2
	config = config.Within(limits)
	require.NoError(t, config.Validate())
	require.Equal(t, 2, config.BatchFiles)
	totals, err := NewFileCleaner(config, smallAnswers{w}, objects, w.deps()).RunOnce(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, totals.FilesForgotten)
	require.True(t, totals.CapReached)
	require.Len(t, w.files(), 10)
}

// TestFileCleanerHangingStore: a store that does not answer fails the cycle when its
// time is over; the worker backs off, and goes on by itself.
func TestFileCleanerHangingStore(t *testing.T) {
	w := newWorld(t)
	objects := &faulty{Store: openDirectory(t), clock: w.clock}
	w.marked(objects, 20)
	w.clock.Advance(time.Hour)
	objects.set(hanging)
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.BatchFiles = 10 })
	w.run(c.Run)
	w.eventually(func() bool { return objects.hangs.Load() == 1 }, "asks the store")
	require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
	w.clock.Advance(time.Minute) // StoreTimeout
	w.eventually(func() bool { return w.cleanCycles() == 1 }, "gives up")
	require.NoError(t, w.clock.BlockUntilContext(t.Context(), 1))
	require.Equal(t, 0.05, w.metric("file_cleaner_backoff_seconds"))
	require.EqualValues(t, 1, w.metric("file_cleaner_work_remains"))
	require.Equal(t, 3660., w.metric("file_cleaner_oldest_waiting_age_seconds"))
	require.Len(t, w.files(), 20, "nothing was confirmed")
	require.Len(t, keysOf(t, objects), 15)
	require.EqualValues(t, 1, objects.calls.Load(), "the second batch is not tried")
	require.Contains(t, w.log.String(), "10 of 10 objects not confirmed")
	require.Contains(t, w.log.String(), "did not answer in time")

	objects.set(healthy)
	w.waits(w.cleanCycles, 50*time.Millisecond)
	require.Len(t, w.files(), 10, "the second batch is not held up by the first")
	w.waits(w.cleanCycles, 12*time.Second)
	require.Empty(t, w.files())
	require.Empty(t, keysOf(t, objects))
	require.Zero(t, w.metric("file_cleaner_backoff_seconds"))
	require.Contains(t, w.log.String(), "works again")
}

// TestFileCleanerSlowStore: what a cycle was told to delete is not trusted for longer
// than keys are fenced. What is left is for the next cycle.
func TestFileCleanerSlowStore(t *testing.T) {
	w := newWorld(t)
	objects := &faulty{Store: openDirectory(t), clock: w.clock}
	w.marked(objects, 20)
	w.clock.Advance(time.Hour)
	objects.set(slow)
	c := w.cleaner(objects, func(c *FileCleanerConfig) { c.BatchFiles = 4 })
	totals, err := c.RunOnce(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 12, totals.FilesForgotten, "after three batches the list is six minutes old")
	require.True(t, totals.CapReached)
	require.EqualValues(t, 1, w.metric("file_cleaner_work_remains"))
	require.Len(t, w.files(), 8)

	c = w.cleaner2(objects, func(c *FileCleanerConfig) { c.BatchFiles, c.MaxFilesPerCycle = 1, 0 })
	totals, err = c.RunOnce(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 8, totals.FilesForgotten, "without a cap it asks again")
	require.False(t, totals.CapReached)
}

// cleaner2 is another cleaner beside the first, as on another node.
func (w *world) cleaner2(objects objectstore.Store, change func(*FileCleanerConfig)) *FileCleaner {
	c := DefaultFileCleanerConfig()
	change(&c)
	deps := w.deps()
	deps.Registerer = nil
	return NewFileCleaner(c, w, objects, deps)
}

// TestFileCleanerTwoLeaders: two nodes that both clean do no harm.
func TestFileCleanerTwoLeaders(t *testing.T) {
	w := newWorld(t)
	objects := openDirectory(t)
	w.marked(objects, 30)
	w.create(2)
	w.commit(objects, "live", 2)
	w.clock.Advance(time.Hour)
	small := func(c *FileCleanerConfig) { c.BatchFiles = 3 }
	cleaners := []*FileCleaner{w.cleaner(objects, small), w.cleaner2(objects, small)}
	errs := make(chan error, len(cleaners))
	for _, c := range cleaners {
		go func() { _, err := c.RunOnce(t.Context()); errs <- err }()
	}
	for range cleaners {
		require.NoError(t, <-errs)
	}
	require.Equal(t, map[string]bool{"live": true}, w.files())
	require.Equal(t, []string{"live"}, keysOf(t, objects))
}

// brokenPlane fails to forget while broken is set, and refuses one key when inUse is.
type brokenPlane struct {
	*world
	broken bool
	inUse  string
}

func (p *brokenPlane) DeleteFiles(ctx context.Context, r *ops.DeleteFilesRequest, o ...api.Option) (*ops.DeleteFilesResponse, error) {
	if p.broken {
		return nil, ops.Errorf(ops.OutcomeUnknown, "lost")
	}
	answer, err := p.world.DeleteFiles(ctx, r, o...)
	if err == nil {
		if i := slices.Index(r.ObjectKeys, p.inUse); i >= 0 {
			answer.Files[i].Error = ops.FileInUse
		}
	}
	return answer, err
}

// TestFileCleanerForgetFails: objects that are gone are confirmed again by the next
// cycle; a file that is not forgotten is an error, not a success.
func TestFileCleanerForgetFails(t *testing.T) {
	w := newWorld(t)
	objects := openDirectory(t)
	keys := w.marked(objects, 6)
	w.clock.Advance(time.Hour)
	plane := &brokenPlane{world: w, broken: true}
	c := NewFileCleaner(DefaultFileCleanerConfig(), plane, objects, w.deps())
	totals, err := c.RunOnce(t.Context())
	require.ErrorIs(t, err, &ops.Error{Code: ops.OutcomeUnknown})
	require.EqualValues(t, 6, totals.ObjectsDeleted)
	require.Zero(t, totals.FilesForgotten)
	require.EqualValues(t, 1, w.metric("file_cleaner_work_remains"))
	plane.broken, plane.inUse = false, keys[2]
	totals, err = c.RunOnce(t.Context())
	require.ErrorContains(t, err, fmt.Sprintf("1 files were not forgotten though their objects are gone, the first: %s: FILE_IN_USE", keys[2]))
	require.EqualValues(t, 5, totals.FilesForgotten)
}
