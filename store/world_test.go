package store

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// openTest opens a store in a directory of its own; closing it checks it.
func openTest(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "state.db"), Options{Sync: SyncNever})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		requireWhole(t, s.path)
	})
	return s
}

func requireWhole(t testing.TB, path string) Report {
	t.Helper()
	r, err := Check(path)
	require.NoError(t, err)
	require.NoError(t, r.Err(), "%q", r.Problems)
	return r
}

func update(t testing.TB, s *Store, fn func(*WriteTx)) {
	t.Helper()
	require.NoError(t, s.Update(func(tx *WriteTx) error {
		fn(tx)
		return nil
	}))
}

func view(t testing.TB, s *Store, fn func(*ReadTx)) {
	t.Helper()
	require.NoError(t, s.View(func(tx *ReadTx) error {
		fn(tx)
		return nil
	}))
}

// reopen closes the store and opens the same file.
func reopen(t testing.TB, s *Store) {
	t.Helper()
	require.NoError(t, s.Close())
	require.NoError(t, s.openFile())
}

// world is a store with a few logs and, beside it, what they must hold.
type world struct {
	t    testing.TB
	rand *rand.Rand
	s    *Store
	logs []*plainLog
	refs map[uint64]int64 // batches of each file
	now  int64
}

type plainLog struct {
	key     LogKey
	batches []Batch
	rows    uint64 // ever appended
}

func topicID(n int) TopicID { return TopicID{0: byte(n * 37), 1: byte(n), 15: 1} }

// newWorld makes a topic with the given number of logs.
func newWorld(t testing.TB, seed uint64, logs int) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), s: openTest(t), refs: map[uint64]int64{}, now: 1_000_000}
	t.Logf("seed %d", seed)
	update(t, w.s, func(tx *WriteTx) {
		for i := range logs {
			id := topicID(i / 4)
			if i%4 == 0 {
				require.NoError(t, tx.PutTopic(id, Topic{Name: fmt.Sprintf("topic-%d", i/4), Origin: OriginDiskless, CreatedAt: w.now}))
			}
			l := &plainLog{key: LogKey{id, int32(i % 4)}}
			w.logs = append(w.logs, l)
			require.NoError(t, tx.CreateLog(l.key, NewLog(0, 0)))
		}
	})
	return w
}

func (w *world) log(tx *ReadTx, p *plainLog) Log {
	l, ok, err := tx.Log(p.key)
	require.NoError(w.t, err)
	require.True(w.t, ok)
	return l
}

// commit appends n batches to random logs in one file, as a commit would.
func (w *world) commit(tx *WriteTx, n int) {
	id := tx.NextFileID()
	w.now += w.rand.Int64N(3)
	for i := range n {
		w.append(tx, w.logs[w.rand.IntN(len(w.logs))], id, i)
	}
	w.refs[id] = int64(n)
	key := fmt.Sprintf("wal/%016x-%d", w.rand.Uint64(), id)
	f := File{ID: id, ObjectKey: key, Format: 1, Reason: FileReasonProduce, UploaderBrokerID: 7, CommittedAt: w.now, Size: 1 << 20, BatchCount: int64(n)}
	p := Replay{Digest: [16]byte{1, byte(id)}, ClockMs: w.now, Partitions: []ReplayPartition{{FirstOffset: int64(id), LogStartOffset: 3}}}
	require.NoError(w.t, tx.CreateFile(f, p))
}

func (w *world) append(tx *WriteTx, p *plainLog, file uint64, i int) {
	l := w.log(&tx.ReadTx, p)
	b := Batch{
		FileID: file, ByteOffset: int64(i) * 4096, ByteSize: 1 + w.rand.Int64N(4096), Magic: 2, TimestampType: int8(w.rand.IntN(2)),
		LogAppendTimestamp: w.now, BatchMaxTimestamp: w.now - 1_000 + w.rand.Int64N(2_000),
	}
	if w.rand.IntN(20) == 0 {
		b.BatchMaxTimestamp = -1
	}
	offsets := 1 + w.rand.Int64N(100)
	require.NoError(w.t, tx.AppendBatch(&l, b, offsets))
	require.NoError(w.t, tx.PutLog(p.key, l))
	b.ID = tx.Meta().LastBatchID
	b.BaseOffset, b.LastOffset = l.HighWatermark-offsets, l.HighWatermark-1
	p.batches = append(p.batches, b)
	p.rows++
}

// trim cuts up to n of the oldest batches of a log and moves its start.
func (w *world) trim(tx *WriteTx, p *plainLog, n int) {
	l := w.log(&tx.ReadTx, p)
	n = min(n, len(p.batches))
	var want Trim
	for _, b := range p.batches[:n] {
		want.Batches++
		want.Bytes += b.ByteSize
		if w.refs[b.FileID]--; w.refs[b.FileID] == 0 {
			want.FilesMarked++
		}
	}
	// One limit is the count, the other the predicate: which one ends it must not matter.
	limit, last := int64(n), int64(-1)
	if n > 0 && w.rand.IntN(2) == 0 {
		limit, last = int64(n)+w.rand.Int64N(100), p.batches[n-1].LastOffset
	}
	got, err := tx.TrimBatches(&l, w.now, limit, func(b *Batch) bool { return last < 0 || b.LastOffset <= last })
	require.NoError(w.t, err)
	require.Equal(w.t, want, got)
	p.batches = p.batches[n:]
	l.LogStartOffset = l.HighWatermark
	if len(p.batches) > 0 {
		l.LogStartOffset = p.batches[0].BaseOffset
	}
	require.NoError(w.t, tx.PutLog(p.key, l))
}

// verify compares a log, read from a random offset and from the start, with what it must hold.
func (w *world) verify(tx *ReadTx, p *plainLog) {
	l := w.log(tx, p)
	require.EqualValues(w.t, len(p.batches), l.Batches())
	require.Equal(w.t, p.rows, l.NextRow)
	w.verifyFrom(tx, p, &l, 0)
	w.verifyFrom(tx, p, &l, w.rand.Int64N(l.HighWatermark+2))
}

func (w *world) verifyFrom(tx *ReadTx, p *plainLog, l *Log, from int64) {
	want := p.batches
	for len(want) > 0 && want[0].LastOffset < from {
		want = want[1:]
	}
	c := tx.Batches(l, from)
	for i := range want {
		require.True(w.t, c.Next(), "batch %d of %d from %d: %v", i, len(want), from, c.Err())
		require.Equal(w.t, want[i], *c.Batch())
	}
	require.False(w.t, c.Next())
	require.NoError(w.t, c.Err())
}

// install receives a stream and installs it.
func install(s *Store, r io.Reader) error {
	to, err := s.Receive()
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, r); err != nil {
		to.Abort()
		return err
	}
	if _, err := to.Finish(); err != nil {
		return err
	}
	return s.Install(to, nil)
}
