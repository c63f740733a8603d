package store

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// load is a state as a busy cluster makes it: files of batches for some distinct
// partitions of many, under random object keys.
type load struct {
	s          *Store
	rand       *rand.Rand
	keys       []LogKey
	batches    int // a file
	partitions int // distinct ones of a file
	nowMs      int64
}

func newLoad(tb testing.TB, partitions int) *load { return newLoadWith(tb, partitions, SyncNever) }

func newLoadWith(tb testing.TB, partitions int, sync SyncMode) *load {
	s, err := Open(filepath.Join(tb.TempDir(), "state.db"), Options{Sync: sync})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	l := &load{s: s, rand: rand.New(rand.NewPCG(1, 1)), batches: 10, partitions: 10, nowMs: 1_700_000_000_000}
	update(tb, s, func(tx *WriteTx) {
		for i := range partitions {
			k := LogKey{TopicID{byte(i / 10 >> 8), byte(i / 10), 9: 1}, int32(i % 10)}
			if i%10 == 0 {
				require.NoError(tb, tx.PutTopic(k.Topic, Topic{Name: fmt.Sprintf("topic-%d", i/10), Origin: OriginDiskless}))
			}
			require.NoError(tb, tx.CreateLog(k, NewLog(0, 0)))
			l.keys = append(l.keys, k)
		}
	})
	return l
}

// commit does what the commit of one file does to the store.
func (l *load) commit(tx *WriteTx) error {
	l.nowMs++
	id := tx.NextFileID()
	p := Replay{ClockMs: l.nowMs, Partitions: make([]ReplayPartition, 0, l.partitions)}
	for i := range 16 {
		p.Digest[i] = byte(l.rand.Uint32())
	}
	first := l.rand.IntN(len(l.keys))
	for i := range l.partitions {
		// Distinct, and spread over the key space.
		k := l.keys[(first+i*7919)%len(l.keys)]
		row, _, err := tx.LiveLog(k)
		if err != nil {
			return err
		}
		p.Partitions = append(p.Partitions, ReplayPartition{FirstOffset: row.HighWatermark, LogStartOffset: row.LogStartOffset})
		for j := range l.batches / l.partitions {
			b := Batch{FileID: id, ByteOffset: int64(i*1000+j) * 16_000, ByteSize: 16_000 + l.rand.Int64N(8_000), Magic: 2,
				LogAppendTimestamp: l.nowMs, BatchMaxTimestamp: l.nowMs - l.rand.Int64N(200)}
			if err := tx.AppendBatch(&row, b, 1+l.rand.Int64N(1000)); err != nil {
				return err
			}
		}
		if err := tx.PutLog(k, row); err != nil {
			return err
		}
	}
	f := File{ID: id, ObjectKey: l.objectKey(), Format: 1, Reason: FileReasonProduce, UploaderBrokerID: 1, CommittedAt: l.nowMs,
		Size: 200_000, BatchCount: int64(l.batches)}
	return tx.CreateFile(f, p)
}

// objectKey is "wal/" and a UUID.
func (l *load) objectKey() string {
	b := appendID(appendID(nil, l.rand.Uint64()), l.rand.Uint64())
	h := hex.EncodeToString(b)
	return "wal/" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// fill commits files, 64 a transaction, until the state has that many batches.
func (l *load) fill(tb testing.TB, batches int) {
	for n := 0; n < batches; {
		update(tb, l.s, func(tx *WriteTx) {
			for range 64 {
				require.NoError(tb, l.commit(tx))
				n += l.batches
			}
		})
	}
}

// BenchmarkCommit: one operation is one commit of 10 batches, 64 a transaction.
func BenchmarkCommit(b *testing.B) {
	for _, partitions := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			l := newLoad(b, partitions)
			l.fill(b, 100_000)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += 64 {
				update(b, l.s, func(tx *WriteTx) {
					for range 64 {
						require.NoError(b, l.commit(tx))
					}
				})
			}
		})
	}
}

// BenchmarkRead: one operation reads 10 batches of each of 10 logs, with their
// object keys, in one transaction.
func BenchmarkRead(b *testing.B) {
	l := newLoad(b, 1_000)
	l.fill(b, 1_000_000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		view(b, l.s, func(tx *ReadTx) {
			for range 10 {
				if err := l.read(tx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (l *load) read(tx *ReadTx) error {
	row, _, err := tx.LiveLog(l.keys[l.rand.IntN(len(l.keys))])
	if err != nil {
		return err
	}
	c := tx.Batches(&row, l.rand.Int64N(row.HighWatermark))
	for n := 0; n < 10 && c.Next(); n++ {
		if _, err := tx.ObjectKey(c.Batch().FileID); err != nil {
			return err
		}
	}
	return c.Err()
}

// BenchmarkReadBare is the same reads from a bare bbolt file of one row a batch.
func BenchmarkReadBare(b *testing.B) {
	const logs, perLog = 1_000, 1_000
	db := bareRows(b, logs, perLog)
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		err := db.View(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("rows")).Cursor()
			for range 10 {
				k, _ := c.Seek(appendBatchKey(nil, uint64(r.IntN(logs)), r.Int64N(perLog-10)))
				for range 9 {
					k, _ = c.Next()
				}
				if k == nil {
					b.Fatal("ran off the end")
				}
			}
			return nil
		})
		require.NoError(b, err)
	}
}

// bareRows is a file with a row of 60 bytes for each batch and nothing else.
func bareRows(tb testing.TB, logs, perLog int) *bbolt.DB {
	db, err := bbolt.Open(filepath.Join(tb.TempDir(), "bare.db"), 0o600, boltOptions(Options{Sync: SyncNever}))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	row := make([]byte, 60)
	for l := range logs {
		require.NoError(tb, db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("rows"))
			for i := 0; i < perLog && err == nil; i++ {
				err = bucket.Put(appendBatchKey(nil, uint64(l), int64(i)), row)
			}
			return err
		}))
	}
	return db
}

const purged, purgedAnEntry = 200_000, 500

// BenchmarkPurge: one operation removes 200,000 batches of 10 logs, whose files
// hold only them, in transactions of 500.
func BenchmarkPurge(b *testing.B) {
	for range b.N {
		b.StopTimer()
		l := newLoad(b, 10)
		l.fill(b, purged)
		b.StartTimer()
		for _, k := range l.keys {
			for more := true; more; {
				update(b, l.s, func(tx *WriteTx) {
					row, _, err := tx.Log(k)
					require.NoError(b, err)
					_, err = tx.TrimBatches(&row, l.nowMs, purgedAnEntry, func(*Batch) bool { return true })
					require.NoError(b, err)
					require.NoError(b, tx.PutLog(k, row))
					more = row.Batches() > 0
				})
			}
		}
	}
}

// BenchmarkPurgeBare is the same number of rows deleted from a bare file.
func BenchmarkPurgeBare(b *testing.B) {
	for range b.N {
		b.StopTimer()
		db := bareRows(b, 10, purged/10)
		b.StartTimer()
		for n := 0; n < purged; n += purgedAnEntry {
			require.NoError(b, db.Update(func(tx *bbolt.Tx) error {
				rows := tx.Bucket([]byte("rows"))
				for i := n; i < n+purgedAnEntry; i++ {
					if err := rows.Delete(appendBatchKey(nil, uint64(i/(purged/10)), int64(i%(purged/10)))); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
}

// BenchmarkPageUse loads a million batches and says what they take: bytes of
// pages in use by batch, in all and by bucket.
func BenchmarkPageUse(b *testing.B) {
	for _, partitions := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			const batches = 1_000_000
			for range b.N {
				l := newLoad(b, partitions)
				l.fill(b, batches)
				b.StopTimer()
				view(b, l.s, func(tx *ReadTx) { reportPages(b, tx, batches) })
				stats, err := l.s.Stats()
				require.NoError(b, err)
				b.ReportMetric(float64(stats.FileBytes)/batches, "file-B/batch")
				b.StartTimer()
			}
		})
	}
}

func reportPages(b *testing.B, tx *ReadTx, batches float64) {
	total := 0
	for bk := range bucket(bucketCount) {
		s := tx.bucket(bk).Stats()
		bytes := s.BranchAlloc + s.LeafAlloc
		total += bytes
		if float64(bytes) > batches {
			b.ReportMetric(float64(bytes)/batches, bk.String()+"-B/batch")
			b.ReportMetric(100*float64(s.LeafInuse)/float64(s.LeafAlloc), bk.String()+"-%full")
		}
	}
	b.ReportMetric(float64(total)/batches, "live-B/batch")
}
