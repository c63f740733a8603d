package segmentlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/switch/segmentlog"
)

// died is the directory of a log that died with 4 batches flushed, in two segments, and 2
// that were not, of which the active segment holds the last.
func died(t *testing.T) string {
	t.Helper()
	l := open(t, t.TempDir(), segmentlog.Config{SegmentBytes: 4 * frame})
	fill(t, l, 1, 2)
	require.NoError(t, l.Roll())
	fill(t, l, 2, 2)
	require.NoError(t, l.Flush())
	fill(t, l, 3, 2)
	l.Die()
	return l.Dir()
}

func change(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(b), 0o600))
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 1; return b }
}

func cutTo(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

func TestTornEndIsCut(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]byte) []byte
		end    int64
		cut    int64
	}{
		"nothing is torn":              {cutTo(4 * frame), 6, 0},
		"the last payload":             {cutTo(4*frame - 1), 5, frame - 1},
		"the last header":              {cutTo(3*frame + 5), 5, 5},
		"a whole batch is missing":     {cutTo(3 * frame), 5, 0},
		"all that was not flushed":     {cutTo(2 * frame), 4, 0},
		"a bit of the last":            {flip(4*frame - 1), 5, frame},
		"a bit of the one before":      {flip(2*frame + 3), 4, 2 * frame},
		"a block of zeros":             {func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 6, 4096},
		"the file grew, nothing in it": {func(b []byte) []byte { return append(b[:3*frame], make([]byte, frame)...) }, 5, frame},
	} {
		t.Run(name, func(t *testing.T) {
			dir := died(t)
			change(t, filepath.Join(dir, segmentlog.SegmentName(2)), test.change)
			l := open(t, dir, small)
			require.Equal(t, test.cut, l.CutBytes())
			for range 2 {
				require.Equal(t, count(0, test.end), offsets(t, l, 0))
				require.EqualValues(t, 4, l.HighWatermark(), "as of the last flush")
				epochs := 3
				if test.end == 4 {
					epochs = 2 // the third had no other record
				}
				require.Len(t, l.Epochs(), epochs)
				l = reopen(t, l, small)
				require.Zero(t, l.CutBytes())
			}
			fill(t, l, 3, 3)
			require.Equal(t, count(0, test.end+3), offsets(t, reopen(t, l, small), 0))
		})
	}
}

func TestDamageBelowTheFlushedPointIsAnError(t *testing.T) {
	last := segmentlog.SegmentName(2)
	for name, test := range map[string]struct {
		file   string
		change func([]byte) []byte
		says   string
	}{
		"a bit of a checksum":     {last, flip(2), "00000000000000000002.log at byte 0: corrupt: checksum of the batch differs"},
		"a bit of a payload":      {last, flip(2*frame - 1), fmt.Sprintf("00000000000000000002.log at byte %d: corrupt: checksum", frame)},
		"a bit of a length":       {last, flip(frame + 4), fmt.Sprintf("00000000000000000002.log at byte %d: corrupt: ", frame)},
		"a bit of an offset":      {last, flip(frame + 21), fmt.Sprintf("00000000000000000002.log at byte %d: corrupt: ", frame)},
		"a cut batch":             {last, cutTo(2*frame - 1), fmt.Sprintf("00000000000000000002.log at byte %d: corrupt: the file ends within", frame)},
		"a missing batch":         {last, cutTo(frame), fmt.Sprintf("00000000000000000002.log at byte %d: corrupt: the file ends before offset 4", frame)},
		"a bit of the checkpoint": {"checkpoint", flip(15), "checkpoint at byte 0: corrupt: checksum differs"},
		"an empty checkpoint":     {"checkpoint", cutTo(0), "checkpoint at byte 0: corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := died(t)
			change(t, filepath.Join(dir, test.file), test.change)
			_, err := segmentlog.Open(dir, small)
			require.ErrorIs(t, err, segmentlog.ErrCorrupt)
			require.ErrorContains(t, err, filepath.Join(dir, test.says))
		})
	}
}

// The checkpoint may be written between two flushes, with a high watermark above flushed.
func TestHighWatermarkIsNotAheadOfTheEnd(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 2)
	require.NoError(t, l.SetLogStart(0))
	l.Die()
	change(t, filepath.Join(l.Dir(), segmentlog.SegmentName(0)), cutTo(frame))
	require.EqualValues(t, 1, open(t, l.Dir(), small).HighWatermark())
}

func TestSegmentUnderAnotherName(t *testing.T) {
	dir := died(t)
	require.NoError(t, os.Rename(filepath.Join(dir, segmentlog.SegmentName(2)), filepath.Join(dir, segmentlog.SegmentName(3))))
	_, err := segmentlog.Open(dir, small)
	require.ErrorIs(t, err, segmentlog.ErrCorrupt)
}

func TestMissingFilesAreAnError(t *testing.T) {
	for name, missing := range map[string][]string{
		"the checkpoint":     {"checkpoint"},
		"the first segment":  {segmentlog.SegmentName(0)},
		"the active segment": {segmentlog.SegmentName(2)},
		"all segments":       {segmentlog.SegmentName(0), segmentlog.SegmentName(2)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := died(t)
			for _, name := range missing {
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
			_, err := segmentlog.Open(dir, small)
			require.ErrorIs(t, err, segmentlog.ErrCorrupt)
		})
	}
}

// Damage of a segment that is not the newest is found by the read that comes to it.
func TestDamageOfAnOlderSegment(t *testing.T) {
	for name, test := range map[string]struct {
		change func([]byte) []byte
		says   string
	}{
		"a flipped bit":   {flip(2*frame - 1), "checksum of the batch differs"},
		"a cut batch":     {cutTo(2*frame - 1), "the file ends within a batch"},
		"a missing batch": {cutTo(frame), "the file ends before offset 2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := died(t)
			change(t, filepath.Join(dir, segmentlog.SegmentName(0)), test.change)
			l := open(t, dir, small)
			batches, err := l.Read(0, all, 1<<20)
			require.NoError(t, err)
			require.Len(t, batches, 1, "what is before the damage can be read")
			_, err = l.Read(1, all, 1<<20)
			require.ErrorIs(t, err, segmentlog.ErrCorrupt)
			require.ErrorContains(t, err, fmt.Sprintf("%s at byte %d", filepath.Join(dir, segmentlog.SegmentName(0)), frame))
			require.ErrorContains(t, err, test.says)
			require.Equal(t, count(2, 6), offsets(t, l, 2), "and what is behind it")
		})
	}
}

// A file that a crash left between two steps of a change.
func TestLeftoversOfACrash(t *testing.T) {
	t.Run("a checkpoint that is not whole", func(t *testing.T) {
		dir := died(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "checkpoint.tmp"), []byte(`{"ver`), 0o600))
		require.Equal(t, count(0, 6), offsets(t, open(t, dir, small), 0))
	})
	t.Run("files of others", func(t *testing.T) {
		dir := died(t)
		for _, name := range []string{"1.log", "00000000000000000001.log.old", "notes"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		require.Equal(t, count(0, 6), offsets(t, open(t, dir, small), 0))
	})
	t.Run("a restart that has not made its segment", func(t *testing.T) {
		l := open(t, t.TempDir(), small)
		fill(t, l, 1, 5)
		require.NoError(t, l.RestartAt(100, 20, nil))
		l.Die()
		require.NoError(t, os.Remove(filepath.Join(l.Dir(), segmentlog.SegmentName(100))))
		l = open(t, l.Dir(), small)
		require.EqualValues(t, 100, l.EndOffset())
		fill(t, l, 1, 1)
	})
	t.Run("a new log without a segment", func(t *testing.T) {
		l := open(t, t.TempDir(), small)
		l.Die()
		require.NoError(t, os.Remove(filepath.Join(l.Dir(), segmentlog.SegmentName(0))))
		fill(t, open(t, l.Dir(), small), 1, 1)
	})
	t.Run("a segment that was begun", func(t *testing.T) {
		dir := died(t)
		l := open(t, dir, small)
		require.NoError(t, l.Roll())
		l.Die()
		l = open(t, dir, small)
		require.EqualValues(t, 6, l.Segments()[2].Base)
		fill(t, l, 3, 1)
	})
}
