package store

import "encoding/binary"

// Batches are packed into blocks: one bbolt row holds up to blockRows
// consecutive batches of a log, each written as the difference to the one before.
// A batch then takes about 20 bytes instead of 60 to 70, a read of ten batches
// decodes one or two rows, and a delete removes 32 at a time.
//
//	block  | base offset of the first retained batch | batch ... | CRC-32C 4 |
//	batch  | batch id (delta) | last offset - base offset | file id (delta)
//	       | byte offset | byte size | magic 1 | timestamp type 1
//	       | log append timestamp (delta) | batch max timestamp - log append timestamp |
//
// Integers are varints, deltas are to the batch before in the block, or to zero.
// The key holds the base offset of the first batch that the block ever held: it
// stays when batches are cut from the front, so a cut rewrites only the value.
// A block is closed when the row number of the next batch is a multiple of
// blockRows, so blocks never straddle a timestamp group.
const blockRows = 32

func appendBlockBatch(b []byte, prev, x *Batch) []byte {
	b = binary.AppendVarint(b, int64(x.ID-prev.ID))
	b = binary.AppendUvarint(b, uint64(x.LastOffset-x.BaseOffset))
	b = binary.AppendVarint(b, int64(x.FileID-prev.FileID))
	b = binary.AppendVarint(b, x.ByteOffset)
	b = binary.AppendVarint(b, x.ByteSize)
	b = append(b, byte(x.Magic), byte(x.TimestampType))
	b = binary.AppendVarint(b, x.LogAppendTimestamp-prev.LogAppendTimestamp)
	return binary.AppendVarint(b, x.BatchMaxTimestamp-x.LogAppendTimestamp)
}

// blockReader yields the batches of one block.
type blockReader struct {
	rowReader
	key   []byte
	batch Batch // the latest one read
}

func newBlockReader(key, payload []byte) blockReader {
	r := blockReader{rowReader: rowReader{buf: payload}, key: key}
	r.batch.LastOffset = r.int() - 1
	return r
}

// next reads one batch into r.batch; false at the end or on damage.
func (r *blockReader) next() bool {
	if r.bad || len(r.buf) == 0 {
		return false
	}
	b := &r.batch
	b.ID += uint64(r.int())
	b.BaseOffset = b.LastOffset + 1
	b.LastOffset = b.BaseOffset + int64(r.uint())
	b.FileID += uint64(r.int())
	b.ByteOffset = r.int()
	b.ByteSize = r.int()
	b.Magic, b.TimestampType = int8(r.byte()), int8(r.byte())
	b.LogAppendTimestamp += r.int()
	b.BatchMaxTimestamp = b.LogAppendTimestamp + r.int()
	if b.LastOffset < b.BaseOffset {
		r.bad = true
	}
	return !r.bad
}

func (r *blockReader) err() error {
	if r.bad {
		return corrupt(bucketBatches, r.key, "block does not decode")
	}
	return nil
}

// tailRoom is what a staged block can grow by before it moves: a few batches.
const tailRoom = 128

// tail is the open last block of a log in a write transaction.
type tail struct {
	key     [batchKeySize]byte
	payload []byte
	last    Batch // newest batch in it
	dirty   bool
}

// tailOf is the block that the next batch of l goes to, or nil when it opens a new one.
func (tx *WriteTx) tailOf(l *Log) (*tail, error) {
	if l.Batches() == 0 || l.NextRow%blockRows == 0 {
		return nil, nil
	}
	if t := tx.tails[l.ID]; t != nil {
		return t, nil
	}
	c := tx.cursor(bucketBatches)
	k, row := tx.seekBlock(c, l.ID, l.HighWatermark)
	if k == nil {
		return nil, corrupt(bucketBatches, appendBatchKey(nil, l.ID, l.HighWatermark), "last block of the log is missing")
	}
	payload, err := openRow(bucketBatches, k, row)
	if err != nil {
		return nil, err
	}
	r := newBlockReader(k, payload)
	for r.next() {
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	t := &tail{payload: append(tx.arena.buf(len(payload)+tailRoom), payload...), last: r.batch}
	copy(t.key[:], k)
	tx.tails[l.ID] = t
	return t, nil
}

// AppendBatch gives b its id and its offsets, from the log's high watermark to
// that + offsets - 1, and appends it. l is changed; the caller puts it.
func (tx *WriteTx) AppendBatch(l *Log, b Batch, offsets int64) error {
	tx.meta.LastBatchID++
	b.ID = tx.meta.LastBatchID
	b.BaseOffset, b.LastOffset = l.HighWatermark, l.HighWatermark+offsets-1
	t, err := tx.tailOf(l)
	if err != nil {
		return err
	}
	if t == nil {
		t = &tail{payload: binary.AppendVarint(tx.arena.buf(tailRoom), b.BaseOffset)}
		appendBatchKey(t.key[:0], l.ID, b.BaseOffset)
		tx.tails[l.ID] = t
	}
	t.payload = appendBlockBatch(t.payload, &t.last, &b)
	t.last, t.dirty = b, true
	tx.meta.Digest.add(batchHash(l.ID, &b))
	tx.meta.Totals.Batches++

	if l.Batches() == 0 {
		l.EarliestBatchTimestamp = b.Timestamp()
	}
	l.HighWatermark = b.LastOffset + 1
	l.ByteSize += b.ByteSize
	if err := tx.countTime(l, &b); err != nil {
		return err
	}
	l.NextRow++
	if l.NextRow%blockRows == 0 {
		return tx.flushTail(l.ID)
	}
	return nil
}

// flushTail writes the staged last block of a log and forgets it, so that
// cursors see it. The full block is put as it is, without another copy.
func (tx *WriteTx) flushTail(logID uint64) error {
	t := tx.tails[logID]
	if t == nil {
		return nil
	}
	delete(tx.tails, logID)
	if !t.dirty {
		return nil
	}
	return tx.putRaw(bucketBatches, t.key[:], t.payload)
}

func (tx *WriteTx) flushTails() error {
	for _, id := range sortedKeys(tx.tails) {
		if err := tx.flushTail(id); err != nil {
			return err
		}
	}
	return nil
}
