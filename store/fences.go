package store

import "encoding/binary"

// Fence is until when (exclusive, Unix ms) commits of an object key are refused.
// An expired fence may still have its row: compare with the clock.
func (tx *ReadTx) Fence(objectKey string) (untilMs int64, ok bool, err error) {
	key := []byte(objectKey)
	payload, ok, err := tx.get(bucketFences, key)
	if err != nil || !ok {
		return 0, false, err
	}
	r := rowReader{buf: payload}
	untilMs = r.int()
	err = r.done(bucketFences, key)
	return untilMs, err == nil, err
}

// PutFence fences an object key until the given time, whatever was set before.
func (tx *WriteTx) PutFence(objectKey string, untilMs int64) error {
	if err := tx.DropFence(objectKey); err != nil {
		return err
	}
	tx.changes++
	tx.meta.Totals.Fences++
	if err := tx.put(bucketFences, []byte(objectKey), binary.AppendVarint(tx.arena.buf(16), untilMs)); err != nil {
		return err
	}
	return tx.putRaw(bucketFenceTimes, appendFenceTimeKey(nil, untilMs, objectKey), tx.arena.buf(crcSize))
}

// DropFence removes the fence of an object key, if it has one.
func (tx *WriteTx) DropFence(objectKey string) error {
	until, ok, err := tx.Fence(objectKey)
	if err != nil || !ok {
		return err
	}
	tx.changes++
	tx.meta.Totals.Fences--
	if err := tx.delete(bucketFences, []byte(objectKey)); err != nil {
		return err
	}
	return tx.delete(bucketFenceTimes, appendFenceTimeKey(nil, until, objectKey))
}

// Fences calls fn for each fence, first to end first, until it returns false.
// fn must not change fences.
func (tx *ReadTx) Fences(fn func(objectKey string, untilMs int64) bool) error {
	c := tx.bucket(bucketFenceTimes).Cursor()
	for k, row := c.First(); k != nil; k, row = c.Next() {
		if _, err := openRow(bucketFenceTimes, k, row); err != nil {
			return err
		}
		if !fn(string(k[fenceTimeKeyPrefix:]), decodeTime(k)) {
			return nil
		}
	}
	return nil
}
