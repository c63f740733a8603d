package store

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// ReadTx reads one consistent state. It is used by one goroutine at a time, and
// short: while it is open, pages that are freed are not used again.
type ReadTx struct {
	btx     *bbolt.Tx
	buckets [bucketCount]*bbolt.Bucket
	cursors [bucketCount]*bbolt.Cursor // for point reads and batch cursors, made once
	meta    Meta
	key     [64]byte // room for the key of a point read
	write   *WriteTx // the transaction this is part of, nil for a plain read

	topics    table[TopicID, Topic]
	logs      table[LogKey, Log]
	files     table[uint64, File]
	producers table[producerKey, Producer]

	brokers       table[int32, Broker]
	registrations table[LogKey, Registration]
}

// WriteTx changes the state. Its reads see its own changes. After an error from
// any of its methods it must be rolled back: part of a change may be staged.
type WriteTx struct {
	ReadTx
	store       *Store // nil once it has ended
	arena       *arena
	tails       map[uint64]*tail
	changes     uint64
	changedRows []rowRef // by the present entry
}

type producerKey struct {
	logID      uint64
	producerID int64
}

// init fills tx in place, since its parts point at each other.
func (tx *ReadTx) init(btx *bbolt.Tx) error {
	tx.btx = btx
	tx.topics = table[TopicID, Topic]{bucket: bucketTopics, appendRow: appendTopic, decode: decodeTopic,
		appendKey: func(b []byte, id TopicID) []byte { return append(b, id[:]...) }}
	tx.logs = table[LogKey, Log]{bucket: bucketLogs, appendRow: appendLog, decode: decodeLog, appendKey: appendLogKey}
	tx.files = table[uint64, File]{bucket: bucketFiles, appendRow: appendFile, decode: decodeFile, appendKey: appendID}
	tx.producers = table[producerKey, Producer]{bucket: bucketProducers, appendRow: appendProducer, decode: decodeProducer,
		appendKey: func(b []byte, k producerKey) []byte { return appendProducerKey(b, k.logID, k.producerID) }}
	tx.brokers = table[int32, Broker]{bucket: bucketBrokers, appendRow: appendBroker, decode: decodeBroker, appendKey: appendBrokerKey}
	tx.registrations = table[LogKey, Registration]{bucket: bucketRegistrations, appendRow: appendRegistration, decode: decodeRegistration, appendKey: appendLogKey}
	payload, ok, err := tx.get(bucketMeta, metaKey)
	if err != nil {
		return err
	}
	if !ok {
		return corrupt(bucketMeta, metaKey, "row is missing")
	}
	tx.meta, err = decodeMeta(payload)
	return err
}

// Meta is the applied index, clock, counters, digest and totals. In a write
// transaction the digest and totals include what was flushed so far.
func (tx *ReadTx) Meta() Meta { return tx.meta }

// bucket is nil for a late one that has no row yet.
func (tx *ReadTx) bucket(b bucket) *bbolt.Bucket {
	if tx.buckets[b] == nil {
		tx.buckets[b] = tx.btx.Bucket([]byte(bucketTable[b].name))
	}
	return tx.buckets[b]
}

// cursor is the transaction's one cursor of the bucket: a caller that keeps a
// position while others read the bucket makes its own.
func (tx *ReadTx) cursor(b bucket) *bbolt.Cursor {
	if tx.cursors[b] == nil {
		tx.cursors[b] = tx.bucket(b).Cursor()
	}
	return tx.cursors[b]
}

// get is the checked payload of a row, valid as long as the transaction and
// until the row is written.
func (tx *ReadTx) get(b bucket, key []byte) (payload []byte, ok bool, err error) {
	if tx.bucket(b) == nil {
		return nil, false, nil
	}
	// bbolt's Get would make a cursor for each call.
	found, row := tx.cursor(b).Seek(key)
	if !bytes.Equal(found, key) {
		return nil, false, nil
	}
	payload, err = openRow(b, key, row)
	return payload, err == nil, err
}

// scan calls fn for each row of a bucket from a key on until it returns false. What
// is staged must have been written.
func (tx *ReadTx) scan(b bucket, from []byte, fn func(key, payload []byte) (bool, error)) error {
	rows := tx.bucket(b)
	if rows == nil {
		return nil
	}
	c := rows.Cursor()
	for k, row := c.Seek(from); k != nil; k, row = c.Next() {
		payload, err := openRow(b, k, row)
		if err != nil {
			return err
		}
		if more, err := fn(k, payload); err != nil || !more {
			return err
		}
	}
	return nil
}

// put writes a row. payload must come from the arena: bbolt keeps it until commit.
func (tx *WriteTx) put(b bucket, key, payload []byte) error {
	if bucketTable[b].logical {
		old, ok, err := tx.get(b, key)
		if err != nil {
			return err
		}
		if ok {
			tx.meta.Digest.sub(rowHash(b, key, old))
		}
		tx.meta.Digest.add(rowHash(b, key, payload))
	}
	return tx.putRaw(b, key, payload)
}

// putRaw writes a row that the digest does not count, or counts elsewhere.
func (tx *WriteTx) putRaw(b bucket, key, payload []byte) error {
	row := sealRow(key, payload)
	tx.arena.took(row)
	if tx.bucket(b) == nil {
		if _, err := tx.btx.CreateBucket([]byte(b.String())); err != nil {
			return fmt.Errorf("make bucket %s: %w", b, err)
		}
		tx.fill(b)
	}
	if err := tx.bucket(b).Put(key, row); err != nil {
		return fmt.Errorf("write to bucket %s: %w", b, err)
	}
	return nil
}

// fill says how full pages are left when they split, for the rest of the transaction.
func (tx *WriteTx) fill(b bucket) {
	if percent := bucketTable[b].fill; percent > 0 && tx.bucket(b) != nil {
		tx.bucket(b).FillPercent = percent
	}
}

// delete removes a row, which must exist.
func (tx *WriteTx) delete(b bucket, key []byte) error {
	old, ok, err := tx.get(b, key)
	if err != nil {
		return err
	}
	if !ok {
		return corrupt(b, key, "row to delete is missing")
	}
	if bucketTable[b].logical {
		tx.meta.Digest.sub(rowHash(b, key, old))
	}
	return tx.deleteRaw(b, key)
}

func (tx *WriteTx) deleteRaw(b bucket, key []byte) error {
	if err := tx.bucket(b).Delete(key); err != nil {
		return fmt.Errorf("delete from bucket %s: %w", b, err)
	}
	return nil
}

// Changes counts the rows that were changed so far: an entry that leaves it as it
// was changed nothing.
func (tx *WriteTx) Changes() uint64 { return tx.changes }

// SetClock moves the state's clock, which never goes back: an earlier time is ignored.
func (tx *WriteTx) SetClock(ms int64) { tx.meta.LastClockMs = max(tx.meta.LastClockMs, ms) }

// SetFeatureLevel sets the level of what may be logged and of how rows are written.
func (tx *WriteTx) SetFeatureLevel(level uint64) {
	tx.changes++
	if tx.meta.FeatureLevel < EventLevel && (tx.meta.LastLogID > 0 || tx.meta.Totals.Topics > 0) {
		tx.meta.EventsFrom = tx.meta.AppliedIndex // what is there came without events
	}
	tx.meta.FeatureLevel = level
}

// Digest is that of the state with all that the transaction has done so far, where
// Meta shows what was flushed.
func (tx *WriteTx) Digest() (Digest, error) {
	err := tx.flush()
	return tx.meta.Digest, err
}

// SetClusterID names the cluster that the state belongs to.
func (tx *WriteTx) SetClusterID(id [16]byte) { tx.meta.ClusterID = id }

// flush writes all that is staged.
func (tx *WriteTx) flush() error {
	return errors.Join(tx.flushTails(), tx.topics.flush(tx), tx.logs.flush(tx), tx.files.flush(tx), tx.producers.flush(tx),
		tx.brokers.flush(tx), tx.registrations.flush(tx))
}

func (tx *WriteTx) flushMeta() error {
	return tx.putRaw(bucketMeta, metaKey, appendMeta(tx.arena.buf(256), &tx.meta))
}

// arena hands out the buffers that rows are encoded into. bbolt keeps a row's
// slice until commit; afterwards all of them are used again.
type arena struct {
	chunks [][]byte
	full   int // chunks before this one have no room
}

const arenaChunk = 64 << 10

// buf is an empty buffer with room for n bytes. Growing beyond that moves it to
// memory of its own, which is correct but slower.
func (a *arena) buf(n int) []byte {
	for {
		if a.full == len(a.chunks) {
			a.chunks = append(a.chunks, make([]byte, 0, max(arenaChunk, n)))
		}
		c := a.chunks[a.full]
		if cap(c)-len(c) >= n {
			a.chunks[a.full] = c[:len(c)+n]
			return c[len(c) : len(c) : len(c)+n]
		}
		a.full++
	}
}

// took gives back what the latest buffer did not need, when row is that buffer.
func (a *arena) took(row []byte) {
	if a.full == len(a.chunks) || cap(row) == 0 {
		return
	}
	c := a.chunks[a.full]
	start := len(c) - cap(row)
	if start >= 0 && &c[start : start+1][0] == &row[:1][0] {
		a.chunks[a.full] = c[:start+len(row)]
	}
}

func (a *arena) reset() {
	for i := range a.chunks {
		a.chunks[i] = a.chunks[i][:0]
	}
	if len(a.chunks) > maxIdleArenaChunks {
		a.chunks = a.chunks[:maxIdleArenaChunks]
	}
	a.full = 0
}

// maxIdleArenaChunks bounds what an unusually large transaction leaves behind.
const maxIdleArenaChunks = 64
