package purger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
)

func putObject(t *testing.T, s objectstore.Store, key, content string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, strings.NewReader(content), int64(len(content))))
}

// find is what FindOrphans finds, as "kind key size/file size".
func (w *world) find(objects objectstore.Store, index FileIndex, o OrphanOptions) (found []string, totals OrphanTotals, err error) {
	o.Found = func(f Finding) {
		text := fmt.Sprintf("%s %s %d/%d", f.Kind, f.ObjectKey, f.Size, f.FileSize)
		if f.Deleted {
			text += " deleted"
		}
		if f.Err != nil {
			text += " failed"
		}
		found = append(found, text)
	}
	totals, err = FindOrphans(w.t.Context(), objects, index, o)
	return found, totals, err
}

// TestFindOrphans on a store with one of each kind.
func TestFindOrphans(t *testing.T) {
	w := newWorld(t)
	objects := objectstore.NewMemory(w.clock.Now)
	w.create(1)
	w.create(2)
	for _, key := range []string{"fine", "gone", "short"} {
		w.commit(objects, key, 2)
	}
	w.commit(objects, "marked", 1)
	w.commit(nil, "marked-gone", 1)
	w.delete(1)
	_, err := w.PurgeDeletedLogs(t.Context(), &ops.PurgeDeletedLogsRequest{})
	require.NoError(t, err)
	require.NoError(t, objects.Delete(t.Context(), []string{"gone"})[0])
	putObject(t, objects, "short", "sho")
	putObject(t, objects, "orphan", "nobody's")
	long := strings.Repeat("x", 1025) // no file can have this key
	putObject(t, objects, long, "x")
	w.clock.Advance(time.Hour)
	putObject(t, objects, "young", "under way")
	before := w.clock.Now()

	last := w.node.Status().LastIndex
	var steps []OrphanTotals
	options := OrphanOptions{ModifiedBefore: before, Progress: func(p OrphanTotals) { steps = append(steps, p) }}
	found, totals, err := w.find(objects, w, options)
	require.NoError(t, err)
	want := []string{"orphan orphan 8/-1", "orphan " + long + " 1/-1 failed", "missing gone -1/4", "size_differs short 3/5"}
	require.Equal(t, want, found)
	require.Equal(t, OrphanTotals{Objects: 6, Files: 3, Orphans: 2, OrphanBytes: 9, Missing: 1, SizesDiffer: 1, YoungObjects: 1}, totals)
	require.Len(t, steps, 2)
	require.EqualValues(t, 6, steps[0].Objects)
	require.Equal(t, totals, steps[1])
	require.Equal(t, last, w.node.Status().LastIndex, "looking changes nothing")

	options.Delete = true
	want[0] += " deleted"
	found, totals, err = w.find(objects, w, options)
	require.NoError(t, err)
	require.Equal(t, want, found)
	require.EqualValues(t, 1, totals.Deleted)
	require.Equal(t, []string{"fine", "marked", "short", long, "young"}, keysOf(t, objects))

	_, err = w.CommitFile(t.Context(), &ops.CommitFileRequest{ObjectKey: "orphan", Format: 1, Batches: []ops.CommitBatch{
		{TopicID: topicID(2), Magic: 2, ByteSize: 1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}}})
	require.ErrorIs(t, err, &ops.Error{Code: ops.ObjectKeyFenced}, "a late commit must not bring it back")
	found, _, err = w.find(objects, w, options)
	require.NoError(t, err)
	require.Equal(t, want[1:], found)
}

// lateIndex does something before it answers the question about one key or file.
type lateIndex struct {
	*world
	key  string
	then func()
}

func (i *lateIndex) IsSafeToDeleteFile(ctx context.Context, r *ops.IsSafeToDeleteFileRequest, o ...api.Option) (*ops.IsSafeToDeleteFileResponse, error) {
	if r.ObjectKey == i.key {
		i.then()
	}
	return i.world.IsSafeToDeleteFile(ctx, r, o...)
}

// TestFindOrphansCommitUnderWay: an object that is committed after it was listed is not
// deleted.
func TestFindOrphansCommitUnderWay(t *testing.T) {
	w := newWorld(t)
	objects := objectstore.NewMemory(w.clock.Now)
	w.create(1)
	putObject(t, objects, "late", "late")
	index := &lateIndex{world: w, key: "late", then: func() { w.commit(nil, "late", 1) }}
	w.clock.Advance(time.Hour)
	found, _, err := w.find(objects, index, OrphanOptions{ModifiedBefore: w.clock.Now(), Delete: true})
	require.NoError(t, err)
	require.Empty(t, found)
	require.Equal(t, []string{"late"}, keysOf(t, objects))
}

// TestFindOrphansBesideCleaner: what the cleaner does meanwhile is no finding.
func TestFindOrphansBesideCleaner(t *testing.T) {
	w := newWorld(t)
	objects := objectstore.NewMemory(w.clock.Now)
	keys := w.marked(objects, 3)
	w.create(2)
	w.commit(objects, "to-be-purged", 2)
	w.clock.Advance(time.Hour)
	clean := func() {
		_, err := w.cleaner2(objects, func(*FileCleanerConfig) {}).RunOnce(t.Context())
		require.NoError(t, err)
	}
	index := &lateIndex{world: w, key: keys[1], then: clean}
	found, totals, err := w.find(objects, index, OrphanOptions{ModifiedBefore: w.clock.Now()})
	require.NoError(t, err)
	require.Empty(t, found, "objects were listed, and cleaned before they were looked up")
	require.EqualValues(t, 4, totals.Objects)

	vanishing := &vanishing{Store: objects, then: func() {
		w.delete(2)
		_, err := w.PurgeDeletedLogs(t.Context(), &ops.PurgeDeletedLogsRequest{})
		require.NoError(t, err)
		w.clock.Advance(time.Hour)
		clean()
	}}
	found, _, err = w.find(vanishing, w, OrphanOptions{ModifiedBefore: w.clock.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Empty(t, found, "a file was listed, and cleaned before its object was looked up")
}

// vanishing does something before the first object is described.
type vanishing struct {
	objectstore.Store
	then func()
}

func (v *vanishing) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	if v.then != nil {
		v.then()
		v.then = nil
	}
	return v.Store.Stat(ctx, key)
}

// TestFindOrphansPages looks at more objects and files than are held at a time.
func TestFindOrphansPages(t *testing.T) {
	w := newWorld(t)
	objects := objectstore.NewMemory(w.clock.Now)
	w.create(1)
	for i := range orphanPage + 100 {
		w.commit(objects, fmt.Sprintf("f/%04d", i), 1)
		putObject(t, objects, fmt.Sprintf("o/%04d", i), "x")
	}
	require.NoError(t, objects.Delete(t.Context(), []string{"f/0000", "f/1099"})[0])
	w.clock.Advance(time.Hour)
	pages := 0
	found, totals, err := w.find(objects, w, OrphanOptions{ModifiedBefore: w.clock.Now(), Progress: func(OrphanTotals) { pages++ }})
	require.NoError(t, err)
	require.Equal(t, OrphanTotals{Objects: 2198, Files: 1100, Orphans: 1100, OrphanBytes: 1100, Missing: 2}, totals)
	require.Len(t, found, 1102)
	require.True(t, slices.IsSorted(found[:1100]))
	require.Equal(t, 5, pages)
}

// brokenStore fails in one way.
type brokenStore struct {
	objectstore.Store
	list, stat, remove error
}

func (b *brokenStore) List(ctx context.Context, prefix, after string, fn func(objectstore.Object) bool) error {
	return errors.Join(b.Store.List(ctx, prefix, after, fn), b.list)
}

func (b *brokenStore) Stat(ctx context.Context, key string) (objectstore.Object, error) {
	o, err := b.Store.Stat(ctx, key)
	return o, errors.Join(err, b.stat)
}

func (b *brokenStore) Delete(ctx context.Context, keys []string) []error {
	if b.remove == nil {
		return b.Store.Delete(ctx, keys)
	}
	return slices.Repeat([]error{b.remove}, len(keys))
}

// TestFindOrphansFails: a store that does not answer is an error, never a finding.
func TestFindOrphansFails(t *testing.T) {
	w := newWorld(t)
	objects := objectstore.NewMemory(w.clock.Now)
	w.create(1)
	w.commit(objects, "file", 1)
	w.clock.Advance(time.Hour)
	options := OrphanOptions{ModifiedBefore: w.clock.Now(), Delete: true}
	for _, broken := range []*brokenStore{{Store: objects, list: errFault}, {Store: objects, stat: errFault}} {
		found, _, err := w.find(broken, w, options)
		require.ErrorIs(t, err, errFault)
		require.Empty(t, found)
	}
	putObject(t, objects, "orphan", "x")
	w.clock.Advance(time.Hour)
	options.ModifiedBefore = w.clock.Now()
	found, totals, err := w.find(&brokenStore{Store: objects, remove: errFault}, w, options)
	require.NoError(t, err)
	require.Equal(t, []string{"orphan orphan 1/-1 failed"}, found)
	require.Zero(t, totals.Deleted)
	require.Equal(t, []string{"file", "orphan"}, keysOf(t, objects))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = FindOrphans(ctx, objects, w, options)
	require.Error(t, err)
}
