package store

import "encoding/binary"

// To find a batch by timestamp without reading a partition, the largest batch
// timestamp is kept per 256 and per 65,536 consecutive batches of a log. The
// group that is being filled lives in the log's row, so an append touches no
// further row; a full group becomes a row of batch_times. Batches cut from the
// front leave their group's maximum as it was, an over-estimate, so a group that
// lost some is read.
const groupLevels = 2

// groupSizes is how many batches a group of each level holds.
var groupSizes = [groupLevels]uint64{256, 65536}

// timeGroup is the largest batch timestamp of a group and the base offset of
// its first batch.
type timeGroup struct {
	max  int64
	base int64
}

func appendTimeGroup(b []byte, g timeGroup) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, g.max), g.base)
}

func readTimeGroup(r *rowReader) timeGroup { return timeGroup{max: r.int(), base: r.int()} }

// countTime adds the batch with row number l.NextRow to its groups.
func (tx *WriteTx) countTime(l *Log, b *Batch) error {
	for level, size := range groupSizes {
		g := &l.open[level]
		if l.NextRow%size == 0 {
			*g = timeGroup{max: b.Timestamp(), base: b.BaseOffset}
		}
		g.max = max(g.max, b.Timestamp())
		if (l.NextRow+1)%size != 0 {
			continue
		}
		key := appendBatchTimeKey(tx.arena.buf(batchTimeKeySize), l.ID, level, l.NextRow/size)
		if err := tx.putRaw(bucketBatchTimes, key, appendTimeGroup(tx.arena.buf(32), *g)); err != nil {
			return err
		}
	}
	return nil
}

// dropTimes removes the groups that lost their last batch when the first row
// moved from first to l.FirstRow.
func (tx *WriteTx) dropTimes(l *Log, first uint64) error {
	for level, size := range groupSizes {
		for g := first / size; g < l.FirstRow/size; g++ {
			if err := tx.delete(bucketBatchTimes, appendBatchTimeKey(tx.arena.buf(batchTimeKeySize), l.ID, level, g)); err != nil {
				return err
			}
		}
	}
	return nil
}

// group is group g of a level, which holds at least one retained batch.
func (tx *ReadTx) group(l *Log, level int, g uint64) (timeGroup, error) {
	if g == l.NextRow/groupSizes[level] {
		return l.open[level], nil
	}
	key := appendBatchTimeKey(tx.key[:0], l.ID, level, g)
	payload, ok, err := tx.get(bucketBatchTimes, key)
	if err != nil {
		return timeGroup{}, err
	}
	if !ok {
		return timeGroup{}, corrupt(bucketBatchTimes, key, "row is missing")
	}
	r := rowReader{buf: payload}
	tg := readTimeGroup(&r)
	return tg, r.done(bucketBatchTimes, key)
}

// rows is the range of retained row numbers of group g of a level.
func (l *Log) rows(level int, g uint64) (from, to uint64) {
	size := groupSizes[level]
	return max(l.FirstRow, g*size), min(l.NextRow, (g+1)*size)
}

// FirstBatchAtOrAfter is the first batch in offset order whose batch timestamp
// is at least ms. It reads at most a group of each level, and the cut first one.
func (tx *ReadTx) FirstBatchAtOrAfter(l *Log, ms int64) (Batch, bool, error) {
	return tx.firstAtOrAfter(l, groupLevels-1, l.FirstRow, l.NextRow, ms)
}

// firstAtOrAfter searches the rows [from, to) through the groups of a level.
func (tx *ReadTx) firstAtOrAfter(l *Log, level int, from, to uint64, ms int64) (Batch, bool, error) {
	size := groupSizes[level]
	for g := from / size; from < to && g <= (to-1)/size; g++ {
		tg, err := tx.group(l, level, g)
		if err != nil {
			return Batch{}, false, err
		}
		if tg.max < ms {
			continue
		}
		var b Batch
		var ok bool
		if level > 0 {
			lo, hi := l.rows(level, g)
			b, ok, err = tx.firstAtOrAfter(l, level-1, lo, hi, ms)
		} else {
			b, ok, err = tx.scanGroup(l, g, tg, ms)
		}
		if ok || err != nil {
			return b, ok, err
		}
	}
	return Batch{}, false, nil
}

// scanGroup reads the batches of a group of the lowest level.
func (tx *ReadTx) scanGroup(l *Log, g uint64, tg timeGroup, ms int64) (Batch, bool, error) {
	from, to := l.rows(0, g)
	c := tx.Batches(l, tg.base)
	for row := from; row < to && c.Next(); row++ {
		if b := c.Batch(); b.Timestamp() >= ms {
			return *b, true, nil
		}
	}
	return Batch{}, false, c.Err()
}

// MaxTimestampBatch is the first batch in offset order that has the largest
// batch timestamp of the log; false when the log has no batch.
func (tx *ReadTx) MaxTimestampBatch(l *Log) (Batch, bool, error) {
	if l.Batches() == 0 {
		return Batch{}, false, nil
	}
	top, err := tx.maxTimestamp(l, groupLevels-1, l.FirstRow, l.NextRow)
	if err != nil {
		return Batch{}, false, err
	}
	return tx.FirstBatchAtOrAfter(l, top)
}

// maxTimestamp is the exact maximum over the rows [from, to): whole groups are
// trusted, one that lost batches is looked into.
func (tx *ReadTx) maxTimestamp(l *Log, level int, from, to uint64) (int64, error) {
	size := groupSizes[level]
	top := int64(minTimestamp)
	for g := from / size; g <= (to-1)/size; g++ {
		tg, err := tx.group(l, level, g)
		if err != nil {
			return 0, err
		}
		if tg.max <= top {
			continue
		}
		lo, hi := l.rows(level, g)
		switch {
		case lo == g*size: // whole
		case level > 0:
			tg.max, err = tx.maxTimestamp(l, level-1, lo, hi)
		default:
			tg.max, err = tx.maxOfRows(l, tg, hi-lo)
		}
		if err != nil {
			return 0, err
		}
		top = max(top, tg.max)
	}
	return top, nil
}

const minTimestamp = -1 << 63

func (tx *ReadTx) maxOfRows(l *Log, tg timeGroup, rows uint64) (int64, error) {
	top := int64(minTimestamp)
	c := tx.Batches(l, tg.base)
	for ; rows > 0 && c.Next(); rows-- {
		top = max(top, c.Batch().Timestamp())
	}
	return top, c.Err()
}
