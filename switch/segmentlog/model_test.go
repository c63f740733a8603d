package segmentlog_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

var modelSteps = flag.Int("segmentlog.steps", 1500, "operations that the model test of the log runs, about")

// TestModel does random things to a log and to a plain list of batches, lets it die with a
// torn end now and then, and compares all that can be seen. rapid prints its seed on
// failure, takes it back (-rapid.seed), and shortens the run.
func TestModel(t *testing.T) {
	require.NoError(t, flag.Set("rapid.steps", "50"))
	require.NoError(t, flag.Set("rapid.checks", fmt.Sprint(max(1, *modelSteps/50))))
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := &modelRun{t: rt, config: segmentlog.Config{SegmentBytes: rapid.SampledFrom([]int64{1, 100, 400, 9000}).Draw(rt, "segment bytes")}}
		m.reopen(filepath.Join(dir, fmt.Sprint(runs)))
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.append, "append more": m.append, "append batches": m.appendBatches,
			"read": m.read, "read again": m.read,
			"high watermark": m.raise, "roll": m.roll, "flush": m.flush, "truncate": m.truncate, "delete": m.delete,
			"log start": m.setLogStart, "restart": m.restart, "close": m.close, "die": m.die,
			"": m.compare,
		})
	})
}

// modelRun is a log and what should be in it.
type modelRun struct {
	t      *rapid.T
	config segmentlog.Config
	log    *segmentlog.Log

	batches         []switchover.Batch // in the local log, the first may be below localStart
	epochOf         []int32            // of every offset from 0 on
	start, local    int64
	mark            int64 // high watermark
	flushed, marked int64 // the end and the high watermark of the last flush
	epoch           int32
	written         int // batches ever, so that no two are equal
}

func (m *modelRun) end() int64 { return int64(len(m.epochOf)) }

func (m *modelRun) reopen(dir string) {
	l, err := segmentlog.Open(dir, m.config)
	require.NoError(m.t, err)
	m.t.Cleanup(l.Die)
	m.log = l
}

// next is a batch with the next offsets.
func (m *modelRun) next() switchover.Batch {
	if rapid.IntRange(0, 9).Draw(m.t, "new epoch") == 0 {
		m.epoch++
	}
	m.written++
	b := switchover.Batch{
		BaseOffset: m.end(), Records: rapid.Int32Range(1, 3).Draw(m.t, "records"), LeaderEpoch: m.epoch, Kind: switchover.Classic,
		Payload: bytes.Repeat(fmt.Append(nil, m.written), rapid.IntRange(0, 400).Draw(m.t, "repeats")),
	}
	m.batches = append(m.batches, b)
	for range b.Records {
		m.epochOf = append(m.epochOf, b.LeaderEpoch)
	}
	return b
}

func (m *modelRun) append(*rapid.T) {
	b := m.next()
	base, err := m.log.Append(b.LeaderEpoch, b.Records, b.Payload)
	require.NoError(m.t, err)
	require.Equal(m.t, b.BaseOffset, base)
	m.rolled()
}

func (m *modelRun) appendBatches(t *rapid.T) {
	var batches []switchover.Batch
	for range rapid.IntRange(0, 4).Draw(t, "batches") {
		batches = append(batches, m.next())
	}
	require.NoError(m.t, m.log.AppendBatches(batches))
	m.rolled()
}

// rolled learns from the log when it began a segment, which flushes what is before.
func (m *modelRun) rolled() {
	if base := m.segments()[len(m.segments())-1].Base; base > m.flushed {
		m.flushed, m.marked = base, m.mark
	}
}

func (m *modelRun) segments() []switchover.Segment { return m.log.Segments() }

func (m *modelRun) roll(*rapid.T) {
	require.NoError(m.t, m.log.Roll())
	m.flushed, m.marked = m.end(), m.mark
	active := m.segments()[len(m.segments())-1]
	require.Equal(m.t, m.end(), active.Base)
}

func (m *modelRun) raise(t *rapid.T) {
	offset := m.offset(t)
	require.NoError(m.t, m.log.SetHighWatermark(offset))
	m.mark = max(m.mark, min(m.end(), offset))
}

func (m *modelRun) flush(*rapid.T) {
	require.NoError(m.t, m.log.Flush())
	m.flushed, m.marked = m.end(), m.mark
}

// offset is any, a little out of range at times.
func (m *modelRun) offset(t *rapid.T) int64 {
	return rapid.Int64Range(max(-1, m.start-3), m.end()+2).Draw(t, "offset")
}

func (m *modelRun) read(t *rapid.T) {
	offset, limit, maxBytes := m.offset(t), m.offset(t), rapid.IntRange(0, 2000).Draw(t, "bytes")
	got, err := m.log.Read(offset, limit, maxBytes)
	if offset < m.local {
		require.ErrorIs(m.t, err, switchover.ErrNotLocal)
		return
	}
	if offset > m.end() {
		require.ErrorIs(m.t, err, switchover.ErrBeyondEnd)
		return
	}
	require.NoError(m.t, err)
	require.Equal(m.t, m.expect(offset, limit, maxBytes), got)
}

func (m *modelRun) expect(offset, limit int64, maxBytes int) (want []switchover.Batch) {
	segmentEnd := m.end()
	for _, s := range slices.Backward(m.segments()) {
		if offset < s.End {
			segmentEnd = s.End
		}
	}
	for _, b := range m.batches {
		if b.NextOffset() <= offset {
			continue
		}
		if b.NextOffset() > min(limit, segmentEnd) || len(want) > 0 && len(b.Payload) > maxBytes {
			break
		}
		want = append(want, b)
		maxBytes -= len(b.Payload)
	}
	return want
}

// cut drops the batches from offset on, whole ones, and returns the new end.
func (m *modelRun) cut(offset int64) {
	for len(m.batches) > 0 && m.batches[len(m.batches)-1].NextOffset() > offset {
		offset = min(offset, m.batches[len(m.batches)-1].BaseOffset)
		m.batches = m.batches[:len(m.batches)-1]
	}
	m.epochOf = m.epochOf[:offset]
	m.start, m.local, m.mark = min(m.start, offset), min(m.local, offset), min(m.mark, offset)
	m.flushed, m.marked = min(m.flushed, offset), min(m.marked, offset)
	m.epoch = 0
	if offset > 0 {
		m.epoch = m.epochOf[offset-1]
	}
}

func (m *modelRun) truncate(t *rapid.T) {
	offset := max(0, rapid.Int64Range(m.end()-12, m.end()+2).Draw(t, "to"))
	require.NoError(m.t, m.log.Truncate(offset))
	if offset < m.local {
		m.batches = nil
	}
	if offset < m.end() {
		m.cut(offset)
		m.flushed = m.end()
	}
}

func (m *modelRun) delete(t *rapid.T) {
	offset, segments := m.offset(t), m.segments()
	require.NoError(m.t, m.log.DeleteBelow(offset))
	for len(segments) > 1 && segments[0].End <= offset {
		segments = segments[1:]
	}
	require.Equal(m.t, segments, m.segments())
	m.local = max(m.local, segments[0].Base)
	m.mark = max(m.mark, m.local)
	m.drop(segments[0].Base)
}

// drop forgets batches that no segment holds.
func (m *modelRun) drop(base int64) {
	m.batches = slices.DeleteFunc(m.batches, func(b switchover.Batch) bool { return b.BaseOffset < base })
}

func (m *modelRun) setLogStart(t *rapid.T) {
	offset := rapid.Int64Range(0, m.mark).Draw(t, "log start")
	require.NoError(m.t, m.log.SetLogStart(offset))
	if offset > m.flushed {
		m.flushed, m.marked = m.end(), m.mark
	}
	if offset > m.start {
		m.start, m.local = offset, max(m.local, offset)
	}
}

func (m *modelRun) restart(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "often enough") > 0 {
		return
	}
	offset := rapid.Int64Range(max(0, m.end()-5), m.end()+5).Draw(t, "at")
	for m.end() < offset {
		m.epochOf = append(m.epochOf, m.epoch)
	}
	m.start, m.batches = rapid.Int64Range(0, offset).Draw(t, "log start"), nil
	require.NoError(m.t, m.log.RestartAt(offset, m.start, epochStarts(m.epochOf, 0)))
	m.local, m.mark = offset, offset
	m.cut(offset)
	m.flushed, m.marked = offset, offset
}

func epochStarts(epochOf []int32, start int64) []switchover.EpochStart {
	var starts []switchover.EpochStart
	for offset := start; offset < int64(len(epochOf)); offset++ {
		if offset == start || epochOf[offset] != epochOf[offset-1] {
			starts = append(starts, switchover.EpochStart{Epoch: epochOf[offset], Start: offset})
		}
	}
	return starts
}

func (m *modelRun) close(*rapid.T) {
	require.NoError(m.t, m.log.Close())
	m.reopen(m.log.Dir())
	m.flushed, m.marked = m.end(), m.mark
	m.drop(m.segments()[0].Base)
}

// die leaves the file of the active segment torn, at a random place behind what was flushed.
func (m *modelRun) die(t *rapid.T) {
	active := m.segments()[len(m.segments())-1]
	m.log.Die()
	var safe, size, end int64 = 0, 0, active.Base
	for _, b := range m.batches {
		if b.BaseOffset >= active.Base && b.NextOffset() <= m.flushed {
			safe += segmentlog.FrameSize(b)
		}
	}
	torn := rapid.Int64Range(safe, active.Bytes).Draw(t, "torn at")
	for _, b := range m.batches {
		if b.BaseOffset < active.Base {
			continue
		}
		if size += segmentlog.FrameSize(b); size <= torn {
			end = b.NextOffset()
		}
	}
	m.tear(t, filepath.Join(m.log.Dir(), segmentlog.SegmentName(active.Base)), torn)
	before := m.mark
	m.cut(end)
	m.reopen(m.log.Dir())
	m.drop(m.segments()[0].Base)
	m.mark = m.log.HighWatermark()
	require.LessOrEqual(m.t, m.mark, min(before, m.end()))
	require.GreaterOrEqual(m.t, m.mark, min(m.marked, m.end()))
	m.flushed, m.marked = m.end(), m.mark
}

// tear cuts a file, writes rubbish over its end, or flips a bit there.
func (m *modelRun) tear(t *rapid.T, path string, at int64) {
	b, err := os.ReadFile(path)
	require.NoError(m.t, err)
	switch how := rapid.IntRange(0, 2).Draw(t, "how"); {
	case how == 0:
		b = b[:at]
	case how == 1:
		b = append(b[:at], rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, "rubbish")...)
	case at < int64(len(b)):
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	}
	require.NoError(m.t, os.WriteFile(path, b, 0o600))
}

// compare holds all that can be seen against the model.
func (m *modelRun) compare(*rapid.T) {
	require.EqualValues(m.t,
		[]int64{m.start, m.local, m.mark, m.end()},
		[]int64{m.log.LogStartOffset(), m.log.LocalLogStartOffset(), m.log.HighWatermark(), m.log.EndOffset()})
	require.Equal(m.t, epochStarts(m.epochOf, m.start), append([]switchover.EpochStart(nil), m.log.Epochs()...))
	segments := m.segments()
	require.Len(m.t, files(m.t, m.log.Dir()), len(segments))
	for i, s := range segments[1:] {
		require.Equal(m.t, segments[i].End, s.Base)
	}
	var got []switchover.Batch
	for offset := m.local; offset < m.end(); {
		batches, err := m.log.Read(offset, all, 1<<20)
		require.NoError(m.t, err)
		got = append(got, batches...)
		offset = batches[len(batches)-1].NextOffset()
	}
	want := slices.Clone(m.batches)
	want = slices.DeleteFunc(want, func(b switchover.Batch) bool { return b.NextOffset() <= m.local })
	require.Equal(m.t, len(want), len(got))
	for i := range want {
		require.Equal(m.t, want[i], got[i])
	}
}
