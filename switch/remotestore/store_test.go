package remotestore_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/remotestore"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

var ref = ops.LogRef{TopicID: store.TopicID{7}, Partition: 3}

// size of every payload: large, so that a segment has an index.
const size = 20_000

func body(offset int64) []byte { return bytes.Repeat([]byte{byte(offset)}, size) }

// newLog is a log of segments of 10 batches of one record, rolled ones up to offset end.
func newLog(t *testing.T, end int64) *segmentlog.Log {
	t.Helper()
	l, err := segmentlog.Open(t.TempDir(), segmentlog.DefaultConfig())
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	for offset := range end {
		_, err := l.Append(int32(offset/15), 1, body(offset))
		require.NoError(t, err)
		if offset%10 == 9 {
			require.NoError(t, l.Roll())
		}
	}
	return l
}

func open(t *testing.T, dir string) *remotestore.Store {
	t.Helper()
	s, err := remotestore.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func upload(t *testing.T, s *remotestore.Store, l *segmentlog.Log, bases ...int64) {
	t.Helper()
	for _, base := range bases {
		require.NoError(t, uploadOne(t, s, l, base))
	}
}

func uploadOne(t *testing.T, s *remotestore.Store, l *segmentlog.Log, base int64) error {
	t.Helper()
	f, err := l.OpenSegment(base)
	require.NoError(t, err)
	defer f.Close()
	return s.Upload(context.Background(), ref, f)
}

func view(t *testing.T, s *remotestore.Store) *remotestore.View {
	t.Helper()
	v := remotestore.NewView(s)
	require.NoError(t, v.Refresh(context.Background(), ref))
	return v
}

func TestUploadListReadDelete(t *testing.T) {
	ctx := context.Background()
	s, l := open(t, t.TempDir()), newLog(t, 30)
	v := view(t, s)
	require.EqualValues(t, -1, v.HighestOffset(ref))
	upload(t, s, l, 0, 10, 20, 10) // the last does nothing
	require.EqualValues(t, -1, v.HighestOffset(ref), "what the broker does not list does not count")
	_, err := v.Read(ctx, ref, 0, 1)
	require.ErrorIs(t, err, remotestore.ErrNotListed)

	require.NoError(t, v.Refresh(ctx, ref))
	require.EqualValues(t, 29, v.HighestOffset(ref))
	segments := v.Segments(ref)
	require.Len(t, segments, 3)
	require.Equal(t, l.Segments()[1], segments[1].Segment)
	require.Equal(t, []switchover.EpochStart{{Epoch: 0, Start: 10}, {Epoch: 1, Start: 15}}, segments[1].Epochs)
	for offset := range int64(30) {
		batches, err := v.Read(ctx, ref, offset, 2*size)
		require.NoError(t, err)
		require.LessOrEqual(t, len(batches), 2)
		require.Equal(t, offset, batches[0].BaseOffset)
		for _, b := range batches {
			require.Equal(t, body(b.BaseOffset), b.Payload)
		}
	}
	_, err = v.Read(ctx, ref, 30, 1)
	require.ErrorIs(t, err, remotestore.ErrNotListed)

	require.NoError(t, s.Delete(ctx, ref, segments[0]))
	require.NoError(t, s.Delete(ctx, ref, segments[0]))
	_, err = v.Read(ctx, ref, 5, 1)
	require.ErrorIs(t, err, remotestore.ErrLost, "the view is old")
	require.NoError(t, v.Refresh(ctx, ref))
	require.Len(t, v.Segments(ref), 2)
	require.EqualValues(t, 29, v.HighestOffset(ref))
	v.Forget(ref)
	require.EqualValues(t, -1, v.HighestOffset(ref))
}

// The highest offset is where the first gap is, whatever is listed behind it.
func TestHighestOffsetEndsAtAGap(t *testing.T) {
	s, l := open(t, t.TempDir()), newLog(t, 40)
	upload(t, s, l, 10, 30)
	require.EqualValues(t, 19, view(t, s).HighestOffset(ref))
	upload(t, s, l, 20)
	require.EqualValues(t, 39, view(t, s).HighestOffset(ref))
	upload(t, s, l, 0)
	require.EqualValues(t, 39, view(t, s).HighestOffset(ref))
}

// Leaders roll in different places: what they upload overlaps, and is read as one.
func TestOverlappingUploads(t *testing.T) {
	s, l := open(t, t.TempDir()), newLog(t, 30)
	upload(t, s, l, 0, 20)
	other, err := segmentlog.Open(t.TempDir(), segmentlog.DefaultConfig())
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.RestartAt(5, 0, l.Epochs()))
	for other.EndOffset() < 25 {
		batches, err := l.Read(other.EndOffset(), 25, math.MaxInt)
		require.NoError(t, err)
		require.NoError(t, other.AppendBatches(batches))
	}
	require.NoError(t, other.Roll())
	require.EqualValues(t, 9, view(t, s).HighestOffset(ref))
	upload(t, s, other, 5)
	v := view(t, s)
	require.EqualValues(t, 29, v.HighestOffset(ref))
	for offset := range int64(30) {
		batches, err := v.Read(context.Background(), ref, offset, 1)
		require.NoError(t, err)
		require.Equal(t, body(offset), batches[0].Payload)
	}
}

func TestUploadRefuses(t *testing.T) {
	s, l := open(t, t.TempDir()), newLog(t, 20)
	path := filepath.Join(l.Dir(), "00000000000000000000.log")
	for name, damage := range map[string]func([]byte) []byte{
		"a flipped bit":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"a cut batch":    func(b []byte) []byte { return b[:len(b)-1] },
		"a lost batch":   func(b []byte) []byte { return b[:len(b)/2] },
		"another begins": func(b []byte) []byte { return b[len(b)/10:] },
	} {
		t.Run(name, func(t *testing.T) {
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, damage(bytes.Clone(whole)), 0o600))
			require.ErrorIs(t, uploadOne(t, s, l, 0), segmentlog.ErrCorrupt)
			require.EqualValues(t, -1, view(t, s).HighestOffset(ref))
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		})
	}
	upload(t, s, l, 0)
	f, err := l.OpenSegment(10)
	require.NoError(t, err)
	defer f.Close()
	f.Base = 5
	require.ErrorIs(t, s.Upload(context.Background(), ref, f), segmentlog.ErrCorrupt, "it begins at 10")
	f, err = l.OpenSegment(0)
	require.NoError(t, err)
	defer f.Close()
	f.Epochs = []switchover.EpochStart{{Epoch: 9, Start: 0}}
	require.ErrorIs(t, s.Upload(context.Background(), ref, f), remotestore.ErrConflict)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	f, err = l.OpenSegment(10)
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, s.Upload(canceled, ref, f), context.Canceled)
	require.EqualValues(t, 9, view(t, s).HighestOffset(ref))
}

// What was damaged in the store is found: bytes by the read, metadata by the listing.
func TestDamageInTheStore(t *testing.T) {
	dir := t.TempDir()
	s, l := open(t, dir), newLog(t, 20)
	upload(t, s, l, 0, 10)
	v := view(t, s)
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	require.Len(t, names, 4, "and nothing that is half")
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			b[100] ^= 1
			require.NoError(t, os.WriteFile(name, b, 0o600))
		}
	}
	_, err = v.Read(context.Background(), ref, 10, 1)
	require.ErrorIs(t, err, segmentlog.ErrCorrupt)
	batches, err := v.Read(context.Background(), ref, 19, 1)
	require.NoError(t, err)
	require.Equal(t, body(19), batches[0].Payload)

	// Metadata that says more than its name.
	require.NoError(t, os.Rename(names[0], strings.Replace(names[0], "10.json", "11.json", 1)))
	require.ErrorIs(t, v.Refresh(context.Background(), ref), remotestore.ErrDamaged)
	require.EqualValues(t, 19, v.HighestOffset(ref), "the view is as before")
}

// What an upload has left that died goes a day later, with the next upload; one that is under
// way does not.
func TestAbandonedUploadsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s, l := open(t, dir), newLog(t, 20)
	upload(t, s, l, 0)
	partition, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	dead, underWay := filepath.Join(partition[0], "incoming.DEAD"), filepath.Join(partition[0], "incoming.ALIVE")
	for _, name := range []string{dead, underWay} {
		require.NoError(t, os.WriteFile(name, []byte("half"), 0o600))
	}
	long := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(dead, long, long))
	upload(t, s, l, 10)
	require.NoFileExists(t, dead)
	require.FileExists(t, underWay)
	require.EqualValues(t, 19, view(t, s).HighestOffset(ref))
}

// A deletion that stops half-way leaves nothing that is listed and cannot be read.
func TestDeletionThatStops(t *testing.T) {
	dir := t.TempDir()
	s, l := open(t, dir), newLog(t, 10)
	upload(t, s, l, 0)
	v := view(t, s)
	names, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(names[0]))
	require.NoError(t, os.MkdirAll(filepath.Join(names[0], "in the way"), 0o700))
	require.Error(t, s.Delete(context.Background(), ref, v.Segments(ref)[0]))
	require.EqualValues(t, -1, view(t, s).HighestOffset(ref))
	require.NoError(t, os.RemoveAll(names[0]))
	require.NoError(t, s.Delete(context.Background(), ref, v.Segments(ref)[0]))
}

// The store that keeps no bytes looks like any other until somebody wants a record.
func TestStoreWithoutBytes(t *testing.T) {
	s, err := remotestore.OpenWithoutBytes(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	upload(t, s, newLog(t, 20), 0, 10)
	v := view(t, s)
	require.EqualValues(t, 19, v.HighestOffset(ref))
	_, err = v.Read(context.Background(), ref, 0, 1)
	require.ErrorIs(t, err, remotestore.ErrLost)
}

func TestOpenAndCopying(t *testing.T) {
	_, err := remotestore.Open(filepath.Join(t.TempDir(), "not mounted"))
	require.ErrorIs(t, err, os.ErrNotExist)
	v := remotestore.NewView(open(t, t.TempDir()))
	require.True(t, v.Copying(ref))
	v.SetCopying(false)
	require.False(t, v.Copying(ref))
}
