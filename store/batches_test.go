package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRandomAppendsAndTrims(t *testing.T) {
	for seed := range uint64(4) {
		w := newWorld(t, seed, 7)
		for range 150 {
			w.randomTx()
			p := w.logs[w.rand.IntN(len(w.logs))]
			view(t, w.s, func(tx *ReadTx) { w.verify(tx, p) })
			if w.rand.IntN(30) == 0 {
				reopen(t, w.s)
			}
		}
		view(t, w.s, func(tx *ReadTx) {
			for _, p := range w.logs {
				w.verify(tx, p)
			}
		})
	}
}

// randomTx appends, trims and reads in one transaction, in any order.
func (w *world) randomTx() {
	update(w.t, w.s, func(tx *WriteTx) {
		for range 1 + w.rand.IntN(20) {
			p := w.logs[w.rand.IntN(len(w.logs))]
			switch w.rand.IntN(8) {
			case 0:
				w.trim(tx, p, w.rand.IntN(1+len(p.batches)/4))
			case 1:
				w.verify(&tx.ReadTx, p)
			case 2:
				if w.rand.IntN(4) == 0 {
					w.trim(tx, p, len(p.batches))
				}
			default:
				w.commit(tx, 1+w.rand.IntN(40))
			}
		}
	})
}

func TestSeekEveryOffset(t *testing.T) {
	w := newWorld(t, 1, 3)
	for range 30 {
		update(t, w.s, func(tx *WriteTx) { w.commit(tx, 20) })
	}
	update(t, w.s, func(tx *WriteTx) { w.trim(tx, w.logs[1], 45) })
	view(t, w.s, func(tx *ReadTx) {
		for _, p := range w.logs {
			l := w.log(tx, p)
			i := 0
			for from := int64(0); from < l.HighWatermark; from++ {
				for p.batches[i].LastOffset < from {
					i++
				}
				c := tx.Batches(&l, from)
				require.True(t, c.Next())
				require.Equal(t, p.batches[i], *c.Batch(), "from %d", from)
			}
			for _, from := range []int64{l.HighWatermark, l.HighWatermark + 1, 1 << 62} {
				c := tx.Batches(&l, from)
				require.False(t, c.Next())
				require.NoError(t, c.Err())
			}
		}
	})
}

// Pages that a transaction empties stay in its tree until it commits; bbolt's
// cursors stop, or never return, on them.
func TestReadAfterEmptyingPagesInOneTransaction(t *testing.T) {
	t.Run("neighbours before and after", func(t *testing.T) {
		w := newWorld(t, 1, 8)
		for range 100 {
			update(t, w.s, func(tx *WriteTx) { w.commit(tx, 80) })
		}
		update(t, w.s, func(tx *WriteTx) {
			for _, i := range []int{1, 2, 4, 5, 6} {
				w.trim(tx, w.logs[i], len(w.logs[i].batches))
			}
			for _, p := range w.logs {
				w.verify(&tx.ReadTx, p)
			}
			w.commit(tx, 100)
			for _, p := range w.logs {
				w.verify(&tx.ReadTx, p)
			}
		})
	})
	t.Run("the whole bucket", func(t *testing.T) {
		w := newWorld(t, 1, 2)
		for range 100 {
			update(t, w.s, func(tx *WriteTx) { w.commit(tx, 80) })
		}
		update(t, w.s, func(tx *WriteTx) {
			for _, p := range w.logs {
				w.trim(tx, p, len(p.batches))
			}
			k, _ := tx.seekBlock(tx.bucket(bucketBatches).Cursor(), 1, 0)
			require.Nil(t, k)
			w.commit(tx, 10)
			for _, p := range w.logs {
				w.verify(&tx.ReadTx, p)
			}
		})
	})
}

func TestTrimStopsAtTheFirstKeptBatch(t *testing.T) {
	w := newWorld(t, 1, 1)
	p := w.logs[0]
	update(t, w.s, func(tx *WriteTx) { w.commit(tx, 100) })
	update(t, w.s, func(tx *WriteTx) {
		l := w.log(&tx.ReadTx, p)
		seen := 0
		trim, err := tx.TrimBatches(&l, w.now, 50, func(*Batch) bool { seen++; return false })
		require.NoError(t, err)
		require.Zero(t, trim)
		require.Equal(t, 1, seen)
		trim, err = tx.TrimBatches(&l, w.now, 0, func(*Batch) bool { return true })
		require.NoError(t, err)
		require.Zero(t, trim)
		w.verify(&tx.ReadTx, p)
	})
}

func TestTrimOfAFileThatIsGone(t *testing.T) {
	w := newWorld(t, 1, 1)
	err := w.s.Update(func(tx *WriteTx) error {
		l := w.log(&tx.ReadTx, w.logs[0])
		require.NoError(t, tx.AppendBatch(&l, Batch{FileID: 99, ByteSize: 1}, 1))
		_, err := tx.TrimBatches(&l, 1, 1, func(*Batch) bool { return true })
		return err
	})
	require.ErrorIs(t, err, ErrCorrupt)
}
