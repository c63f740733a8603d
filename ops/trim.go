package ops

import (
	"math"

	"github.com/cpnode/cpnode/store"
)

// firstBatch is the oldest retained batch of a log.
func firstBatch(tx *store.ReadTx, l *store.Log) (store.Batch, bool, error) {
	c := tx.Batches(l, 0)
	if !c.Next() {
		return store.Batch{}, false, c.Err()
	}
	return *c.Batch(), true, nil
}

// firstOffset is the base offset of the oldest retained batch, the high
// watermark when there is none.
func firstOffset(tx *store.ReadTx, l *store.Log) (int64, error) {
	b, ok, err := firstBatch(tx, l)
	if err != nil || !ok {
		return l.HighWatermark, err
	}
	return b.BaseOffset, nil
}

// budget is a client's cap, of which 0 means none.
func budget(limit int64) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return limit
}

// trimmed is the result of an entry that cuts one log from the front.
type trimmed struct {
	exists   bool // the log was there
	logStart int64
	batches  int64
	bytes    int64
	more     bool // batches that should go are left
}

// cutOff is the clock at which the first part of an operation began: what is
// computed from "now" goes by it in all parts.
type cutOff struct {
	ms    int64
	fixed bool
}

func (c *cutOff) asOf(nowMs int64) int64 {
	if !c.fixed {
		c.ms, c.fixed = nowMs, true
	}
	return c.ms
}
