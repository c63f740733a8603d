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
}

type slot[V any] struct {
	value  V
	exists bool
	dirty  bool // differs from the file
	stored bool // the file has a row
}

func (t *table[K, V]) read(tx *ReadTx, k K) (v V, ok bool, err error) {
	if t.slots != nil {
		s, err := t.slot(tx, k)
		if err != nil || !s.exists {
			return v, false, err
		}
		return s.value, true, nil
	}
	return t.fromFile(tx, k)
}

func (t *table[K, V]) fromFile(tx *ReadTx, k K) (v V, ok bool, err error) {
	var room [40]byte
	key := t.appendKey(room[:0], k)
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
	v, ok, err := t.fromFile(tx, k)
	if err != nil {
		return nil, err
	}
	s := &slot[V]{value: v, exists: ok, stored: ok}
	t.slots[k] = s
	return s, nil
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
	*s = slot[V]{dirty: s.stored, stored: s.stored}
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
		c.slot.dirty, c.slot.stored = false, c.slot.exists
		if !c.slot.exists {
			if err := tx.delete(t.bucket, c.key); err != nil {
				return err
			}
			continue
		}
		if err := tx.put(t.bucket, c.key, t.appendRow(tx.arena.buf(128), &c.slot.value)); err != nil {
			return err
		}
	}
	return nil
}
