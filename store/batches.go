package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// seekBlock moves c to the block of the log that holds offset or, when offset
// lies below all blocks, to its first one. Nil when the log has no block.
func (tx *ReadTx) seekBlock(c *bbolt.Cursor, logID uint64, offset int64) (k, row []byte) {
	want := appendBatchKey(tx.key[:0], logID, offset)
	k, row = c.Seek(want)
	if bytes.Equal(k, want) {
		return k, row
	}
	// The block with the greatest base offset below is one step back.
	if k, row = previous(c, k); bytes.HasPrefix(k, want[:8]) {
		return k, row
	}
	if k, row = c.Seek(want); bytes.HasPrefix(k, want[:8]) {
		return k, row
	}
	return nil, nil
}

// previous moves c back by one row from k, the row that a seek answered, nil for
// the end. A write transaction needs care: bbolt's Last never returns when the
// transaction has emptied all pages of a bucket, and its Prev answers nil on a
// page that was emptied as it does at the first row.
func previous(c *bbolt.Cursor, k []byte) (prev, row []byte) {
	if k != nil {
		if prev, row = c.Prev(); prev != nil {
			return prev, row
		}
	}
	first, _ := c.Bucket().Cursor().First()
	switch {
	case bytes.Equal(first, k): // k is the first row, or there is none at all
		return nil, nil
	case k == nil:
		return c.Last()
	}
	for prev == nil {
		prev, row = c.Prev()
	}
	return prev, row
}

// BatchCursor walks the batches of one log in offset order:
//
//	c := tx.Batches(&log, from)
//	for c.Next() { use(c.Batch()) }
//	if err := c.Err(); err != nil { ... }
//
// A transaction has one such position: making another cursor ends this one.
type BatchCursor struct {
	cursor *bbolt.Cursor
	logID  uint64
	from   int64
	block  blockReader
	err    error
}

// Batches is a cursor before the first batch with LastOffset >= from.
func (tx *ReadTx) Batches(l *Log, from int64) BatchCursor {
	bc := BatchCursor{logID: l.ID, from: from}
	if l.Batches() == 0 || from >= l.HighWatermark {
		return bc
	}
	if tx.write != nil {
		if bc.err = tx.write.flushTail(l.ID); bc.err != nil {
			return bc
		}
	}
	bc.cursor = tx.cursor(bucketBatches)
	bc.open(tx.seekBlock(bc.cursor, l.ID, from))
	return bc
}

func (bc *BatchCursor) open(k, row []byte) bool {
	if k == nil || binary.BigEndian.Uint64(k) != bc.logID {
		bc.cursor = nil
		return false
	}
	payload, err := openRow(bucketBatches, k, row)
	if err != nil {
		bc.err, bc.cursor = err, nil
		return false
	}
	bc.block = newBlockReader(k, payload)
	return true
}

// Next moves to the next batch; false at the end or on damage.
func (bc *BatchCursor) Next() bool {
	for bc.cursor != nil {
		for bc.block.next() {
			if bc.block.batch.LastOffset >= bc.from {
				return true
			}
		}
		if bc.err = bc.block.err(); bc.err != nil {
			bc.cursor = nil
			return false
		}
		bc.open(bc.cursor.Next())
	}
	return false
}

// Batch is the batch that Next moved to, valid until the next call of Next.
func (bc *BatchCursor) Batch() *Batch { return &bc.block.batch }

// Err is the damage that ended the walk, nil at a plain end.
func (bc *BatchCursor) Err() error { return bc.err }

// Trim says what TrimBatches removed.
type Trim struct {
	Batches     int64
	Bytes       int64
	FilesMarked int64 // files that lost their last batch
}

// TrimBatches removes the oldest batches of l, at most limit, while drop says
// so, and marks files that lost their last batch with nowMs. It updates l, which
// the caller puts, but leaves the log's offsets to the caller.
func (tx *WriteTx) TrimBatches(l *Log, nowMs, limit int64, drop func(*Batch) bool) (Trim, error) {
	var t Trim
	if l.Batches() == 0 || limit <= 0 {
		return t, nil
	}
	if err := tx.flushTail(l.ID); err != nil {
		return t, err
	}
	whole, rest, err := tx.cutFront(l, limit, drop, func(b *Batch) error {
		t.Batches++
		t.Bytes += b.ByteSize
		tx.meta.Digest.sub(batchHash(l.ID, b))
		marked, err := tx.releaseFile(b.FileID, nowMs)
		if marked {
			t.FilesMarked++
		}
		return err
	})
	if err != nil || t.Batches == 0 {
		return t, err
	}
	// Only now: deleting under a cursor can skip keys.
	for _, k := range whole {
		if err := tx.deleteRaw(bucketBatches, k); err != nil {
			return t, err
		}
	}
	if rest.key != nil {
		if err := tx.putRaw(bucketBatches, rest.key, rest.payload); err != nil {
			return t, err
		}
	}
	tx.meta.Totals.Batches -= t.Batches
	l.ByteSize -= t.Bytes
	first := l.FirstRow
	l.FirstRow += uint64(t.Batches)
	if l.Batches() > 0 {
		l.EarliestBatchTimestamp = rest.first.Timestamp()
	} else {
		l.EarliestBatchTimestamp = 0
	}
	return t, tx.dropTimes(l, first)
}

// cutBlock is the first block that remains after a cut; key is nil when it
// remains as it is.
type cutBlock struct {
	first   Batch
	key     []byte
	payload []byte
}

// cutFront walks the batches that go and calls gone for each. It returns the
// keys of blocks to delete and the block to rewrite.
func (tx *WriteTx) cutFront(l *Log, limit int64, drop func(*Batch) bool, gone func(*Batch) error) (whole [][]byte, rest cutBlock, err error) {
	c := tx.bucket(bucketBatches).Cursor()
	prefix := appendID(tx.arena.buf(8), l.ID)
	for k, row := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, row = c.Next() {
		payload, err := openRow(bucketBatches, k, row)
		if err != nil {
			return nil, rest, err
		}
		r := newBlockReader(k, payload)
		cut := false
		for r.next() {
			if limit == 0 || !drop(&r.batch) {
				rest.first = r.batch
				if cut {
					rest.key = append(tx.arena.buf(batchKeySize), k...)
					rest.payload = tx.remainder(&r, len(payload))
				}
				return whole, rest, nil
			}
			cut = true
			limit--
			if err := gone(&r.batch); err != nil {
				return nil, rest, err
			}
		}
		if err := r.err(); err != nil {
			return nil, rest, err
		}
		whole = append(whole, append(tx.arena.buf(batchKeySize), k...))
	}
	return whole, rest, nil
}

// remainder encodes the batches from r's present one on as a block of their own.
func (tx *WriteTx) remainder(r *blockReader, size int) []byte {
	b := binary.AppendVarint(tx.arena.buf(size+64), r.batch.BaseOffset)
	var prev Batch
	for more := true; more; more = r.next() {
		b = appendBlockBatch(b, &prev, &r.batch)
		prev = r.batch
	}
	return b
}
