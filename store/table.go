package store

import (
	"bytes"
	"slices"
)

// table describes a bucket whose rows are read and written by key one at a time,
// and holds those that a write transaction has touched. A row that many entries
// of one batch change is thus encoded, hashed and put once.
type table[K comparable, V any] struct {
	bucket    bucket
	appendKey func([]byte, K) []byte
	appendRow func([]byte, *V) []byte
	decode    func(key, payload []byte) (V, error)
	slots     map[K]*slot[V] // nil in a read transaction
	spare     []slot[V]      // slots are made many at a time
}

type slot[V any] struct {
	value  V
	exists bool
	dirty  bool   // differs from the file
	stored bool   // the file has a row
	hash   Digest // of that row, so that it need not be read again
}

func (t *table[K, V]) read(tx *ReadTx, k K) (v V, ok bool, err error) {
	if t.slots != nil {
		s, err := t.slot(tx, k)
		if err != nil || !s.exists {
			return v, false, err
		}
		return s.value, true, nil
	}
	key := t.appendKey(tx.key[:0], k)
	payload, ok, err := tx.get(t.bucket, key)
	if err != nil || !ok {
		return v, false, err
	}
	v, err = t.decode(key, payload)
	return v, err == nil, err
}

// slot is the staged row of k, read from the file on first touch.
func (t *table[K, V]) slot(tx *ReadTx, k K) (*slot[V], error) {
	if s, ok := t.slots[k]; ok {
		return s, nil
	}
	key := t.appendKey(tx.key[:0], k)
	payload, ok, err := tx.get(t.bucket, key)
	if err != nil {
		return nil, err
	}
	s := t.newSlot()
	s.exists, s.stored = ok, ok
	if ok {
		if s.value, err = t.decode(key, payload); err != nil {
			return nil, err
		}
		s.hash = rowHash(t.bucket, key, payload)
	}
	t.slots[k] = s
	return s, nil
}

const slotsAtOnce = 64

func (t *table[K, V]) newSlot() *slot[V] {
	if len(t.spare) == 0 {
		t.spare = make([]slot[V], slotsAtOnce)
	}
	s := &t.spare[0]
	t.spare = t.spare[1:]
	return s
}

// write stages the row and says whether it is new.
func (t *table[K, V]) write(tx *WriteTx, k K, v V) (created bool, err error) {
	s, err := t.slot(&tx.ReadTx, k)
	if err != nil {
		return false, err
	}
	tx.changes++
	created = !s.exists
	s.value, s.exists, s.dirty = v, true, true
	return created, nil
}

// remove stages the removal of the row and says whether it was there.
func (t *table[K, V]) remove(tx *WriteTx, k K) (removed bool, err error) {
	s, err := t.slot(&tx.ReadTx, k)
	if err != nil || !s.exists {
		return false, err
	}
	tx.changes++
	// A row that was made and removed in one transaction never reaches the file.
	*s = slot[V]{dirty: s.stored, stored: s.stored, hash: s.hash}
	return true, nil
}

// flush writes the dirty rows in key order. It must run before a scan of the
// bucket within the same transaction, and before commit.
func (t *table[K, V]) flush(tx *WriteTx) error {
	type change struct {
		key  []byte
		slot *slot[V]
	}
	var changes []change
	for k, s := range t.slots {
		if s.dirty {
			changes = append(changes, change{t.appendKey(tx.arena.buf(64), k), s})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return bytes.Compare(a.key, b.key) })
	for _, c := range changes {
		if err := t.flushSlot(tx, c.key, c.slot); err != nil {
			return err
		}
	}
	return nil
}

func (t *table[K, V]) flushSlot(tx *WriteTx, key []byte, s *slot[V]) error {
	if s.stored {
		tx.meta.Digest.sub(s.hash)
	}
	s.dirty, s.stored = false, s.exists
	if !s.exists {
		return tx.deleteRaw(t.bucket, key)
	}
	payload := t.appendRow(tx.arena.buf(128), &s.value)
	s.hash = rowHash(t.bucket, key, payload)
	tx.meta.Digest.add(s.hash)
	return tx.putRaw(t.bucket, key, payload)
}
