package segmentlog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

func TestDeleteBelow(t *testing.T) {
	for name, test := range map[string]struct{ offset, localStart int64 }{
		"nothing is below":             {2, 0},
		"a whole segment":              {3, 3},
		"one that offset cuts stays":   {5, 3},
		"all but the active one":       {7, 6},
		"the active one never":         {all, 6},
		"below what is deleted before": {-5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, t.TempDir(), small)
			fill(t, l, 1, 2)
			fill(t, l, 2, 6)
			epochs := l.Epochs()
			require.NoError(t, l.DeleteBelow(test.offset))
			require.NoError(t, l.DeleteBelow(test.offset))
			for range 2 {
				require.EqualValues(t, []int64{0, test.localStart, 8, 8}, []int64{l.LogStartOffset(), l.LocalLogStartOffset(), l.HighWatermark(), l.EndOffset()})
				require.Equal(t, epochs, l.Epochs())
				require.Len(t, files(t, l.Dir()), len(l.Segments()))
				require.Equal(t, count(test.localStart, 8), offsets(t, l, test.localStart))
				_, err := l.Read(test.localStart-1, all, 1)
				require.ErrorIs(t, err, switchover.ErrNotLocal)
				l = reopen(t, l, small)
			}
		})
	}
}

// The gate asks again and again while nothing may go: that puts nothing on disk.
func TestDeletionOfNothingWritesNothing(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 7)
	require.NoError(t, l.DeleteBelow(3))
	fill(t, l, 1, 1)
	checkpoint := filepath.Join(l.Dir(), "checkpoint")
	before, err := os.Stat(checkpoint)
	require.NoError(t, err)
	require.NoError(t, l.DeleteBelow(3))
	after, err := os.Stat(checkpoint)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "the checkpoint was replaced")
}

// The local log start is on disk, and reads know it, before the first file vanishes.
func TestLocalLogStartAdvancesBeforeFilesVanish(t *testing.T) {
	var l *segmentlog.Log
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "crash")
	config := small
	config.BeforeUnlink = func() {
		require.Len(t, files(t, dir), 3)
		_, err := l.Read(2, all, 1)
		require.ErrorIs(t, err, switchover.ErrNotLocal)
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	}
	l = open(t, dir, config)
	fill(t, l, 1, 8)
	require.NoError(t, l.DeleteBelow(6))
	require.Equal(t, []string{segmentlog.SegmentName(6)}, files(t, dir))

	crashed := open(t, copied, small)
	require.EqualValues(t, 6, crashed.LocalLogStartOffset())
	require.Equal(t, []string{segmentlog.SegmentName(6)}, files(t, copied), "what the crash left is removed")
	require.Equal(t, count(6, 8), offsets(t, crashed, 6))
}

// A read that found its segment before the deletion is not answered from it.
func TestReadRacesDeletionAndTruncation(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 8)
	read := l.BeginRead(t, 1)
	require.NoError(t, l.DeleteBelow(6))
	_, err := read()
	require.ErrorIs(t, err, switchover.ErrNotLocal)

	read = l.BeginRead(t, 7)
	require.NoError(t, l.Truncate(7))
	require.NoError(t, l.AppendBatches([]switchover.Batch{{BaseOffset: 7, Records: 1, LeaderEpoch: 2, Kind: switchover.Classic, Payload: []byte("other body")}}))
	batches, err := read()
	require.NoError(t, err)
	require.Equal(t, "other body", string(batches[0].Payload))

	read = l.BeginRead(t, 6)
	require.NoError(t, l.SetHighWatermark(8))
	require.NoError(t, l.SetLogStart(7))
	_, err = read()
	require.ErrorIs(t, err, switchover.ErrNotLocal)

	read = l.BeginRead(t, 7)
	require.NoError(t, l.Close())
	_, err = read()
	require.ErrorIs(t, err, segmentlog.ErrClosed)
}

func TestSetLogStart(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 2)
	fill(t, l, 2, 5)
	fill(t, l, 3, 1)
	require.NoError(t, l.DeleteBelow(3))
	for _, test := range []struct{ offset, start, local int64 }{{1, 1, 3}, {0, 1, 3}, {3, 3, 3}, {4, 4, 4}, {8, 8, 8}} {
		require.NoError(t, l.SetLogStart(test.offset))
		for range 2 {
			require.Equal(t, test.start, l.LogStartOffset())
			require.Equal(t, test.local, l.LocalLogStartOffset())
			if test.start < 8 {
				require.Equal(t, test.start, l.Epochs()[0].Start)
			} else {
				require.Empty(t, l.Epochs())
			}
			l = reopen(t, l, small)
		}
	}
	require.ErrorIs(t, l.SetLogStart(9), switchover.ErrBeyondEnd)
	fill(t, l, 3, 1)
	require.Equal(t, count(8, 9), offsets(t, l, 8))
}

// A log start that is on disk has the records before it on disk too: a crash cannot leave
// an end below the start.
func TestLogStartIsNotAheadOfTheEnd(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 2)
	require.NoError(t, l.SetLogStart(2))
	l.Die()
	require.NoError(t, os.Truncate(filepath.Join(l.Dir(), segmentlog.SegmentName(0)), frame))
	_, err := segmentlog.Open(l.Dir(), small)
	require.ErrorIs(t, err, segmentlog.ErrCorrupt, "it was flushed")
}

func TestOpenSegment(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 4)
	fill(t, l, 2, 4)
	f, err := l.OpenSegment(3)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, l.DeleteBelow(6))
	r := segmentlog.NewReader("copy", f, 0)
	for offset := range count(3, 6) {
		b, err := r.Next()
		require.NoError(t, err, "it stays readable")
		require.Equal(t, payload(int64(offset+3)), b.Payload)
	}
	require.Equal(t, switchover.Segment{Base: 3, End: 6, Bytes: 3 * frame}, f.Segment)
	require.Equal(t, []switchover.EpochStart{{Epoch: 1, Start: 3}, {Epoch: 2, Start: 4}}, f.Epochs)
	for _, base := range []int64{3, 6, 7} {
		_, err := l.OpenSegment(base)
		require.ErrorIs(t, err, switchover.ErrNotLocal)
	}
}

// What the log answered does not change with the log, nor the other way round.
func TestEpochsAreTheCallers(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 1)
	fill(t, l, 2, 3)
	f, err := l.OpenSegment(0)
	require.NoError(t, err)
	defer f.Close()
	answered := l.Epochs()
	answered[0].Epoch = 77
	require.NoError(t, l.Truncate(1))
	fill(t, l, 3, 1)
	require.Equal(t, []switchover.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 3, Start: 1}}, l.Epochs())
	require.Equal(t, []switchover.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 1}}, f.Epochs)
}

// A future log in another directory is filled from the current one, and takes its name.
func TestFutureLogTakesThePlace(t *testing.T) {
	parent := t.TempDir()
	current := open(t, filepath.Join(parent, "current"), small)
	fill(t, current, 1, 5)
	fill(t, current, 2, 5)
	require.NoError(t, current.DeleteBelow(3))
	future := open(t, filepath.Join(parent, "future"), segmentlog.Config{SegmentBytes: 2 * frame})
	require.NoError(t, future.RestartAt(current.LocalLogStartOffset(), current.LogStartOffset(), current.Epochs()))
	for future.EndOffset() < current.EndOffset() {
		batches, err := current.Read(future.EndOffset(), all, 1<<20)
		require.NoError(t, err)
		require.NoError(t, future.AppendBatches(batches))
	}
	require.Equal(t, current.Epochs(), future.Epochs())

	require.ErrorIs(t, future.Rename(current.Dir()), segmentlog.ErrStorage, "the current one is still there")
	require.Equal(t, filepath.Join(parent, "future"), future.Dir())
	read := current.BeginRead(t, 4)
	require.NoError(t, current.Remove())
	require.NoError(t, current.Remove())
	_, err := read()
	require.ErrorIs(t, err, segmentlog.ErrClosed)
	require.NoError(t, future.Rename(current.Dir()))
	fill(t, future, 2, 3)
	require.NoError(t, future.DeleteBelow(6))
	future = reopen(t, future, small)
	require.Equal(t, current.Dir(), future.Dir())
	require.Equal(t, count(6, 13), offsets(t, future, 6))
	require.NoDirExists(t, filepath.Join(parent, "future"))
}
