package segmentlog_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// limitFiles makes the system refuse to write files beyond so many bytes, as a full disk
// does: what is below is written.
func limitFiles(t *testing.T, bytes uint64) (undo func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: before.Max}))
	undo = func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) }
	t.Cleanup(undo)
	return undo
}

func TestHalfWrittenBatchIsUndone(t *testing.T) {
	l := open(t, t.TempDir(), segmentlog.Config{SegmentBytes: 100 * frame})
	fill(t, l, 1, 2)
	undo := limitFiles(t, 3*frame+5)
	var batches []switchover.Batch
	for offset := range count(2, 5) {
		batches = append(batches, switchover.Batch{BaseOffset: int64(offset) + 2, Records: 1, Kind: switchover.Classic, LeaderEpoch: 1, Payload: []byte("refused...")})
	}
	err := l.AppendBatches(batches)
	undo()
	require.ErrorIs(t, err, segmentlog.ErrStorage)
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorContains(t, err, filepath.Join(l.Dir(), segmentlog.SegmentName(0)))
	require.Equal(t, count(0, 2), offsets(t, l, 0))
	fill(t, l, 1, 1) // there is room again
	l.Die()
	l = open(t, l.Dir(), small)
	require.Zero(t, l.CutBytes())
	require.Equal(t, count(0, 3), offsets(t, l, 0), "nothing that was refused comes back")
}

// obstruct puts a directory that is not empty where a file is, so that it can be neither
// removed nor replaced.
func obstruct(t *testing.T, path string) (undo func()) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	return func() { require.NoError(t, os.RemoveAll(path)) }
}

func TestDeletionThatTheDiskRefusesIsRepeated(t *testing.T) {
	for name, obstacle := range map[string]string{
		"the file cannot be removed":       segmentlog.SegmentName(3),
		"the checkpoint cannot be written": "checkpoint.tmp",
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, t.TempDir(), small)
			fill(t, l, 1, 10)
			undo := obstruct(t, filepath.Join(l.Dir(), obstacle))
			err := l.DeleteBelow(9)
			require.ErrorIs(t, err, segmentlog.ErrStorage)
			require.ErrorContains(t, err, l.Dir())
			require.EqualValues(t, 9, l.LocalLogStartOffset())
			_, err = l.Read(8, all, 1)
			require.ErrorIs(t, err, switchover.ErrNotLocal)
			require.Contains(t, files(t, l.Dir()), segmentlog.SegmentName(6))
			undo()
			require.NoError(t, l.DeleteBelow(0))
			require.Equal(t, []string{segmentlog.SegmentName(9)}, files(t, l.Dir()))
			fill(t, l, 1, 1)
			require.Equal(t, count(9, 11), offsets(t, reopen(t, l, small), 9))
		})
	}
}

// Truncation to where a deleted segment began, whose file could not be removed.
func TestRestartTakesDoomedFilesAlong(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 10)
	undo := obstruct(t, filepath.Join(l.Dir(), segmentlog.SegmentName(3)))
	require.ErrorIs(t, l.DeleteBelow(9), segmentlog.ErrStorage)
	undo()
	require.NoError(t, l.Truncate(3))
	fill(t, l, 1, 1)
	require.NoError(t, l.DeleteBelow(0))
	require.Equal(t, []string{segmentlog.SegmentName(3)}, files(t, l.Dir()))
	require.Equal(t, count(3, 4), offsets(t, l, 3))
}

// After a truncation that stopped half-way, nothing is written until the log is opened again.
func TestTruncationThatTheDiskRefuses(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 10)
	undo := obstruct(t, filepath.Join(l.Dir(), segmentlog.SegmentName(6)))
	require.ErrorIs(t, l.Truncate(4), segmentlog.ErrStorage)
	for name, change := range map[string]func() error{
		"append":   func() error { return l.AppendBatches(nil) },
		"flush":    l.Flush,
		"roll":     l.Roll,
		"truncate": func() error { return l.Truncate(0) },
		"restart":  func() error { return l.RestartAt(0, 0, nil) },
		"delete":   func() error { return l.DeleteBelow(0) },
		"start":    func() error { return l.SetLogStart(0) },
	} {
		require.ErrorIs(t, change(), segmentlog.ErrStorage, name)
	}
	require.Equal(t, count(0, 4), offsets(t, l, 0), "what is left can be read")
	require.ErrorIs(t, l.Close(), segmentlog.ErrStorage)
	undo()
	l = open(t, l.Dir(), small)
	require.Equal(t, count(0, 6), offsets(t, l, 0), "a shorter log, without a hole")
}

// A new log that could not write its checkpoint is still a new one.
func TestOpenThatTheDiskRefuses(t *testing.T) {
	dir := t.TempDir()
	undo := obstruct(t, filepath.Join(dir, "checkpoint.tmp"))
	_, err := segmentlog.Open(dir, small)
	require.ErrorIs(t, err, segmentlog.ErrStorage)
	undo()
	fill(t, open(t, dir, small), 1, 1)
}

func TestDirectoryIsGone(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 3)
	require.NoError(t, os.RemoveAll(l.Dir()))
	require.ErrorIs(t, l.Flush(), segmentlog.ErrStorage)
	_, err := l.Append(1, 1, payload(3))
	require.ErrorIs(t, err, segmentlog.ErrStorage, "a roll")
	_, err = segmentlog.Open(filepath.Join("/dev/null", "log"), small)
	require.ErrorIs(t, err, segmentlog.ErrStorage)
}

// A restart that stops half-way leaves a shorter log, and not one that misses what it promised.
func TestRestartThatTheDiskRefuses(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 10)
	require.NoError(t, l.Flush())
	undo := obstruct(t, filepath.Join(l.Dir(), segmentlog.SegmentName(6)))
	require.ErrorIs(t, l.RestartAt(100, 50, nil), segmentlog.ErrStorage)
	require.ErrorIs(t, l.AppendBatches(nil), segmentlog.ErrStorage)
	l.Die()
	undo()
	l = open(t, l.Dir(), small)
	require.EqualValues(t, 0, l.LogStartOffset())
	require.Equal(t, count(0, 6), offsets(t, l, 0))
}
