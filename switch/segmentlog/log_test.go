package segmentlog_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

const all = math.MaxInt64 // as a limit

// small are segments of three batches of payload.
var small = segmentlog.Config{SegmentBytes: 3 * frame}

// frame is the size of a batch that has the payload of payload.
const frame = 26 + 10

// payload is 10 bytes that tell the offset.
func payload(offset int64) []byte { return fmt.Appendf(nil, "record%04d", offset) }

func open(t testing.TB, dir string, config segmentlog.Config) *segmentlog.Log {
	t.Helper()
	l, err := segmentlog.Open(dir, config)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// fill appends n classic batches of one record, in the epoch.
func fill(t testing.TB, l *segmentlog.Log, epoch int32, n int) {
	t.Helper()
	for range n {
		end := l.EndOffset()
		base, err := l.Append(epoch, 1, payload(end))
		require.NoError(t, err)
		require.Equal(t, end, base)
	}
	require.NoError(t, l.SetHighWatermark(all))
}

// offsets are the base offsets of all that can be read from offset on; each payload is checked.
func offsets(t testing.TB, l *segmentlog.Log, from int64) []int64 {
	t.Helper()
	got := []int64{}
	for from < l.EndOffset() {
		batches, err := l.Read(from, all, 1<<20)
		require.NoError(t, err)
		require.NotEmpty(t, batches)
		for _, b := range batches {
			require.Equal(t, payload(b.BaseOffset), b.Payload)
			got = append(got, b.BaseOffset)
		}
		from = batches[len(batches)-1].NextOffset()
	}
	return got
}

func count(from, to int64) []int64 {
	got := []int64{}
	for ; from < to; from++ {
		got = append(got, from)
	}
	return got
}

// reopen closes the log and opens it again.
func reopen(t testing.TB, l *segmentlog.Log, config segmentlog.Config) *segmentlog.Log {
	t.Helper()
	require.NoError(t, l.Close())
	return open(t, l.Dir(), config)
}

func TestAppendAndRead(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "a", "log"), small)
	fill(t, l, 3, 5)
	require.NoError(t, l.AppendBatches([]switchover.Batch{
		{BaseOffset: 5, Records: 3, LeaderEpoch: 4, Kind: switchover.Consolidated, Payload: []byte("three")},
		{BaseOffset: 8, Records: 1, LeaderEpoch: 4, Kind: switchover.Classic, Payload: nil},
	}))
	for name, test := range map[string]struct {
		offset, limit int64
		maxBytes      int
		bases         []int64
		err           error
	}{
		"from the beginning, to the end of the segment": {0, all, 1000, []int64{0, 1, 2}, nil},
		"the budget ends it":                            {0, all, 20, []int64{0, 1}, nil},
		"one that the budget does not hold":             {1, all, 0, []int64{1}, nil},
		"the limit ends it":                             {0, 2, 1000, []int64{0, 1}, nil},
		"at the limit":                                  {2, 2, 1000, nil, nil},
		"inside of a batch":                             {7, all, 1000, []int64{5, 8}, nil},
		"a batch that the limit cuts":                   {5, 7, 1000, nil, nil},
		"at the end":                                    {9, all, 1000, nil, nil},
		"behind the end":                                {10, all, 1000, nil, switchover.ErrBeyondEnd},
		"below the start":                               {-1, all, 1000, nil, switchover.ErrNotLocal},
	} {
		t.Run(name, func(t *testing.T) {
			batches, err := l.Read(test.offset, test.limit, test.maxBytes)
			require.ErrorIs(t, err, test.err)
			var bases []int64
			for _, b := range batches {
				bases = append(bases, b.BaseOffset)
			}
			require.Equal(t, test.bases, bases)
		})
	}
	require.Equal(t, []switchover.EpochStart{{Epoch: 3, Start: 0}, {Epoch: 4, Start: 5}}, l.Epochs())
	require.Equal(t, []switchover.Segment{{Base: 0, End: 3, Bytes: 3 * frame}, {Base: 3, End: 5, Bytes: 2 * frame}, {Base: 5, End: 9, Bytes: 57}}, l.Segments())
}

func TestBatchesThatDoNotFollow(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 3, 2)
	good := switchover.Batch{BaseOffset: 2, Records: 1, LeaderEpoch: 3, Kind: switchover.Classic}
	for name, change := range map[string]func(*switchover.Batch){
		"a hole":          func(b *switchover.Batch) { b.BaseOffset = 4 },
		"an overlap":      func(b *switchover.Batch) { b.BaseOffset = 2 },
		"an older epoch":  func(b *switchover.Batch) { b.LeaderEpoch = 2 },
		"no records":      func(b *switchover.Batch) { b.Records = 0 },
		"no kind":         func(b *switchover.Batch) { b.Kind = 0 },
		"an unknown kind": func(b *switchover.Batch) { b.Kind = 3 },
		"too many bytes":  func(b *switchover.Batch) { b.Payload = make([]byte, segmentlog.MaxPayload+1) },
	} {
		t.Run(name, func(t *testing.T) {
			second := good
			second.BaseOffset = 3
			change(&second)
			require.ErrorIs(t, l.AppendBatches([]switchover.Batch{good, second}), segmentlog.ErrInvalidBatch)
			require.Equal(t, count(0, 2), offsets(t, l, 0), "all or none")
		})
	}
	require.NoError(t, l.AppendBatches([]switchover.Batch{good}))
}

func TestSealRefusesTheLeaderOnly(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 1)
	require.NoError(t, l.Seal())
	require.NoError(t, l.Seal())
	_, err := l.Append(1, 1, payload(1))
	require.ErrorIs(t, err, switchover.ErrSealed)
	require.NoError(t, l.AppendBatches([]switchover.Batch{{BaseOffset: 1, Records: 1, LeaderEpoch: 1, Kind: switchover.Classic, Payload: payload(1)}}),
		"followers keep fetching")
	require.NoError(t, l.Unseal())
	fill(t, l, 1, 1)
	require.Equal(t, count(0, 3), offsets(t, l, 0))
	require.NoError(t, l.Seal())
	fill(t, reopen(t, l, small), 1, 1) // a log is opened unsealed
}

func TestRoll(t *testing.T) {
	l := open(t, t.TempDir(), small)
	require.NoError(t, l.Roll(), "nothing to roll")
	require.Len(t, l.Segments(), 1)
	fill(t, l, 1, 1)
	require.NoError(t, l.Roll())
	require.NoError(t, l.Roll(), "an empty segment stays")
	require.Equal(t, []switchover.Segment{{Base: 0, End: 1, Bytes: frame}, {Base: 1, End: 1}}, l.Segments())
	require.Equal(t, l.Segments(), reopen(t, l, small).Segments())
}

func TestTruncate(t *testing.T) {
	for name, test := range map[string]struct{ offset, end int64 }{
		"to the end":                {7, 7},
		"above the end":             {70, 7},
		"in the active segment":     {6, 6},
		"to where a segment begins": {3, 3},
		"in an older segment":       {2, 2},
		"to nothing":                {0, 0},
		"below nothing":             {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, t.TempDir(), small)
			fill(t, l, 1, 2)
			fill(t, l, 2, 5)
			l = reopen(t, l, small) // so that older segments have no index yet
			require.NoError(t, l.Truncate(test.offset))
			for range 2 {
				require.Equal(t, test.end, l.EndOffset())
				require.Equal(t, test.end, l.HighWatermark())
				require.Equal(t, count(0, test.end), offsets(t, l, 0))
				for _, e := range l.Epochs() {
					require.Less(t, e.Start, test.end)
				}
				l = reopen(t, l, small)
			}
			fill(t, l, 2, 4)
			require.Equal(t, count(0, test.end+4), offsets(t, l, 0))
		})
	}
}

func TestTruncateBelowNothingOfAnEmptyLog(t *testing.T) {
	l := open(t, t.TempDir(), small)
	require.NoError(t, l.Truncate(-3))
	require.EqualValues(t, 0, l.EndOffset())
	fill(t, l, 1, 2)
	require.Equal(t, count(0, 2), offsets(t, l, 0))
}

func TestTruncateInsideOfABatch(t *testing.T) {
	l := open(t, t.TempDir(), small)
	for range 2 {
		_, err := l.Append(1, 10, []byte("ten"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Truncate(15))
	require.EqualValues(t, 10, l.EndOffset(), "a cut batch goes whole")
	require.NoError(t, l.SetHighWatermark(10))
	require.NoError(t, l.SetLogStart(5))
	require.NoError(t, l.Truncate(5))
	require.EqualValues(t, 0, l.EndOffset())
	require.EqualValues(t, 0, l.LogStartOffset())
	require.Equal(t, l.Segments(), reopen(t, l, small).Segments())
}

func TestTruncateBelowTheLocalLogStart(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 2)
	fill(t, l, 2, 6)
	require.NoError(t, l.DeleteBelow(6))
	require.NoError(t, l.Truncate(4))
	for range 2 {
		require.EqualValues(t, 4, l.LocalLogStartOffset())
		require.EqualValues(t, 0, l.LogStartOffset())
		require.Equal(t, []switchover.Segment{{Base: 4, End: 4}}, l.Segments())
		require.Equal(t, []switchover.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 2}}, l.Epochs())
		l = reopen(t, l, small)
	}
	fill(t, l, 2, 1)
	require.Equal(t, count(4, 5), offsets(t, l, 4))
}

// A local log start inside of a segment counts, not where the segment begins.
func TestTruncateBelowTheLogStart(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 3)
	require.NoError(t, l.SetLogStart(2))
	require.NoError(t, l.Truncate(1))
	require.EqualValues(t, []int64{1, 1}, []int64{l.LogStartOffset(), l.LocalLogStartOffset()})
	require.Equal(t, []switchover.Segment{{Base: 1, End: 1}}, l.Segments())
}

func TestRestartAt(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 7)
	epochs := []switchover.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 5, Start: 50}, {Epoch: 9, Start: 100}}
	require.ErrorIs(t, l.RestartAt(100, 101, epochs), segmentlog.ErrInvalidBatch)
	require.NoError(t, l.RestartAt(100, 20, epochs))
	for range 2 {
		require.EqualValues(t, []int64{20, 100, 100, 100}, []int64{l.LogStartOffset(), l.LocalLogStartOffset(), l.HighWatermark(), l.EndOffset()})
		require.Equal(t, []switchover.EpochStart{{Epoch: 1, Start: 20}, {Epoch: 5, Start: 50}}, l.Epochs())
		_, err := l.Read(99, all, 100)
		require.ErrorIs(t, err, switchover.ErrNotLocal)
		l = reopen(t, l, small)
	}
	fill(t, l, 5, 4)
	require.Equal(t, count(100, 104), offsets(t, l, 100))
}

func TestEndOfEpoch(t *testing.T) {
	l := open(t, t.TempDir(), small)
	end := func(epoch int32) string {
		found, offset := l.EndOfEpoch(epoch)
		return fmt.Sprint(found, " ", offset)
	}
	require.Equal(t, "-1 -1", end(0))
	fill(t, l, 2, 3)
	fill(t, l, 5, 4)
	require.Equal(t, []string{"1 0", "2 3", "2 3", "5 7", "-1 -1"}, []string{end(1), end(2), end(4), end(5), end(6)})
	require.NoError(t, l.DeleteBelow(3))
	require.Equal(t, "2 3", end(2), "epochs of deleted segments stay")
	require.NoError(t, l.SetLogStart(4))
	require.Equal(t, "2 4", end(2), "and go with the log start")
}

func TestIndexOfLargeSegments(t *testing.T) {
	config := segmentlog.Config{SegmentBytes: 1 << 20}
	l := open(t, t.TempDir(), config)
	body := bytes.Repeat([]byte{7}, 1000)
	for range 300 {
		_, err := l.Append(1, 2, body)
		require.NoError(t, err)
	}
	require.NoError(t, l.Roll())
	check := func() {
		for offset := range l.EndOffset() {
			batches, err := l.Read(offset, all, 1)
			require.NoError(t, err)
			require.Equal(t, offset/2*2, batches[0].BaseOffset)
		}
	}
	check()
	l = reopen(t, l, config)
	check()
	require.NoError(t, l.Truncate(301))
	for range 100 { // others, in other places
		_, err := l.Append(1, 2, body[:777])
		require.NoError(t, err)
	}
	check()

	// What is far before is passed over unread.
	change(t, filepath.Join(l.Dir(), segmentlog.SegmentName(0)), flip(8))
	_, err := l.Read(0, all, 1)
	require.ErrorIs(t, err, segmentlog.ErrCorrupt)
	_, err = l.Read(50, all, 1)
	require.NoError(t, err)
}

func TestCloseTwice(t *testing.T) {
	l := open(t, t.TempDir(), small)
	fill(t, l, 1, 2)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err := l.Append(1, 1, nil)
	require.ErrorIs(t, err, segmentlog.ErrClosed)
	_, err = l.Read(0, all, 1)
	require.ErrorIs(t, err, segmentlog.ErrClosed)
	require.ErrorIs(t, l.DeleteBelow(1), segmentlog.ErrClosed)
	require.ErrorIs(t, l.Seal(), segmentlog.ErrClosed)
	require.Error(t, segmentlog.Config{}.Validate())
}

// files are the names of the segments in a directory.
func files(t require.TestingT, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			names = append(names, e.Name())
		}
	}
	return names
}
