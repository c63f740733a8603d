package store

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// timedLog is a log whose batches differ only in their timestamps.
type timedLog struct {
	t     *testing.T
	rand  *rand.Rand
	s     *Store
	key   LogKey
	times []int64 // of the retained batches; one offset a batch
	first int64   // offset of the first one
}

func newTimedLog(t *testing.T, seed uint64) *timedLog {
	w := newWorld(t, seed, 3)
	return &timedLog{t: t, rand: w.rand, s: w.s, key: w.logs[1].key}
}

func (l *timedLog) append(n int, next func(i int) int64) {
	update(l.t, l.s, func(tx *WriteTx) {
		id := tx.NextFileID()
		row, _, err := tx.Log(l.key)
		require.NoError(l.t, err)
		for i := range n {
			ms := next(i)
			l.times = append(l.times, ms)
			require.NoError(l.t, tx.AppendBatch(&row, Batch{FileID: id, ByteSize: 1, BatchMaxTimestamp: ms}, 1))
		}
		require.NoError(l.t, tx.PutLog(l.key, row))
		require.NoError(l.t, tx.CreateFile(File{ID: id, ObjectKey: string(appendID(nil, id)), BatchCount: int64(n)}, Replay{}))
	})
}

func (l *timedLog) trim(n int) {
	update(l.t, l.s, func(tx *WriteTx) {
		row, _, err := tx.Log(l.key)
		require.NoError(l.t, err)
		_, err = tx.TrimBatches(&row, 1, int64(n), func(*Batch) bool { return true })
		require.NoError(l.t, err)
		row.LogStartOffset += int64(n)
		require.NoError(l.t, tx.PutLog(l.key, row))
	})
	l.times, l.first = l.times[n:], l.first+int64(n)
}

// verify asks for a timestamp and for the maximum, in a read and in a write transaction.
func (l *timedLog) verify(ms int64) {
	ask := func(tx *ReadTx) {
		row, _, err := tx.Log(l.key)
		require.NoError(l.t, err)
		b, ok, err := tx.FirstBatchAtOrAfter(&row, ms)
		require.NoError(l.t, err)
		want := l.find(ms)
		require.Equal(l.t, want >= 0, ok, "at or after %d", ms)
		if ok {
			require.Equal(l.t, l.first+int64(want), b.BaseOffset, "at or after %d", ms)
		}
		b, ok, err = tx.MaxTimestampBatch(&row)
		require.NoError(l.t, err)
		require.Equal(l.t, len(l.times) > 0, ok)
		if ok {
			require.Equal(l.t, l.first+int64(l.find(l.max())), b.BaseOffset)
		}
	}
	view(l.t, l.s, ask)
	update(l.t, l.s, func(tx *WriteTx) { ask(&tx.ReadTx) })
}

func (l *timedLog) find(ms int64) int {
	for i, at := range l.times {
		if at >= ms {
			return i
		}
	}
	return -1
}

func (l *timedLog) max() int64 {
	top := int64(math.MinInt64)
	for _, at := range l.times {
		top = max(top, at)
	}
	return top
}

func TestTimestampGroups(t *testing.T) {
	l := newTimedLog(t, 5)
	shapes := []func(i int) int64{
		func(i int) int64 { return int64(i) * 3 },                                 // rising
		func(i int) int64 { return 1_000_000 - int64(i)*3 },                       // falling
		func(int) int64 { return l.rand.Int64N(1_000_000) },                       // any
		func(i int) int64 { return int64(i)*3 + l.rand.Int64N(100_000) - 50_000 }, // nearly rising, some negative
	}
	for len(l.times) < 140_000 {
		l.append(1+l.rand.IntN(12_000), shapes[l.rand.IntN(len(shapes))])
	}
	for len(l.times) > 0 {
		for range 5 {
			l.verify(l.rand.Int64N(1_200_000) - 100_000)
		}
		l.verify(l.times[l.rand.IntN(len(l.times))])
		l.verify(l.max())
		l.verify(l.max() + 1)
		switch l.rand.IntN(4) {
		case 0:
			l.trim(min(1+l.rand.IntN(300), len(l.times)))
		case 1:
			l.append(1+l.rand.IntN(300), shapes[l.rand.IntN(len(shapes))])
		default:
			l.trim(min(1+l.rand.IntN(6_000), len(l.times)))
		}
	}
	l.verify(0)
	for range 300 {
		l.append(1+l.rand.IntN(3), shapes[2])
		l.trim(l.rand.IntN(len(l.times) + 1))
		l.verify(l.rand.Int64N(1_000_000))
	}
}

// The edges of groups, where the open group becomes a row and the first is cut.
func TestTimestampGroupEdges(t *testing.T) {
	l := newTimedLog(t, 6)
	flat := func(int) int64 { return 10 }
	l.append(255, flat)
	l.append(1, func(int) int64 { return 90 })
	l.verify(90)
	l.append(256, flat)
	l.verify(90)
	l.trim(255)
	l.verify(90)
	l.trim(1) // the peak and its group go
	l.verify(90)
	l.verify(10)
	l.trim(100) // cut within the second group
	l.verify(11)
	l.trim(156)
	l.verify(10)
	l.append(3, flat)
	l.verify(10)
	l.append(65536-l.rows(), func(i int) int64 { return int64(i) })
	l.verify(30_000)
	l.trim(len(l.times) - 1)
	l.verify(30_000)
	l.append(1, flat)
	l.verify(10)
}

func (l *timedLog) rows() int { return int(l.first) + len(l.times) }

func TestTimestampOfABatch(t *testing.T) {
	for _, c := range []struct {
		kind         int8
		append, maxi int64
		want         int64
	}{
		{0, 5, 9, 9}, {1, 5, 9, 5}, {0, 5, -1, 5}, {-1, 5, -1, 5}, {-1, 5, 9, 9}, {0, 5, -2, -2},
	} {
		b := Batch{TimestampType: c.kind, LogAppendTimestamp: c.append, BatchMaxTimestamp: c.maxi}
		require.Equal(t, c.want, b.Timestamp(), "%+v", c)
	}
}
