package store

import (
	"maps"
	"slices"
)

// logCheck recounts one log from its blocks.
type logCheck struct {
	key LogKey
	Log
	row    uint64 // number of the next batch
	next   int64  // its base offset, once there was one
	bytes  int64
	lastID uint64                 // batch id of the one before
	groups [groupLevels]timeGroup // over the retained batches of the group that row falls in
}

func (c *checker) checkLogs() {
	c.logs, c.logByKey = map[uint64]*logCheck{}, map[LogKey]*logCheck{}
	c.scan(bucketLogs, logKeySize, func(key, payload []byte) error {
		l, err := decodeLog(key, payload)
		if err != nil {
			return err
		}
		k := decodeLogKey(key)
		if other := c.logs[l.ID]; other != nil || l.ID == 0 || l.ID > c.meta.LastLogID {
			c.problem("log %s-%d: id %d is used twice or was never given", k.Topic, k.Partition, l.ID)
		}
		c.logs[l.ID] = &logCheck{key: k, Log: l, row: l.FirstRow}
		c.logByKey[k] = c.logs[l.ID]
		if l.LogStartOffset > l.HighWatermark || l.LogStartOffset < 0 {
			c.problem("log %s-%d: log_start_offset %d, high_watermark %d", k.Topic, k.Partition, l.LogStartOffset, l.HighWatermark)
		}
		if l.FirstRow > l.NextRow {
			c.problem("log %s-%d: first row %d, next row %d", k.Topic, k.Partition, l.FirstRow, l.NextRow)
		}
		c.checkLogOfTopic(k, &l)
		return nil
	})
	for _, id := range slices.SortedFunc(maps.Keys(c.topics), TopicID.Compare) {
		if t := c.topics[id]; t.counted != t.Logs || t.Deleted && t.Logs == 0 {
			c.problem("topic %s: counts %d logs, has %d", id, t.Logs, t.counted)
		}
	}
}

func (c *checker) checkLogOfTopic(k LogKey, l *Log) {
	if l.Deleted {
		c.totals.DeletedLogs++
		c.expect(bucketDeletedLogs, appendDeletedLogKey(nil, l.DeletedAt, k), nil)
	} else {
		c.totals.LiveLogs++
	}
	t := c.topics[k.Topic]
	if t == nil {
		c.problem("log %s-%d: the topic is missing", k.Topic, k.Partition)
		return
	}
	t.counted++
	if t.Deleted != l.Deleted {
		c.problem("log %s-%d: deleted %t, its topic %t", k.Topic, k.Partition, l.Deleted, t.Deleted)
	}
}

func (c *checker) checkBatches() {
	c.refs = map[uint64]int64{}
	c.scan(bucketBatches, batchKeySize, func(key, payload []byte) error {
		logID, base := decodeBatchKey(key)
		l := c.logs[logID]
		if l == nil {
			return corrupt(bucketBatches, key, "the log is missing")
		}
		r := newBlockReader(key, payload)
		first := l.row == l.FirstRow // block of the log, whose front may be cut
		if !first && l.row%blockRows != 0 {
			return corrupt(bucketBatches, key, "the block before is not full")
		}
		n := 0
		for ; r.next(); n++ {
			if n == 0 && (base > r.batch.BaseOffset || !first && base != r.batch.BaseOffset) {
				return corrupt(bucketBatches, key, "the key is not the block's first offset")
			}
			if n > 0 && l.row%blockRows == 0 {
				return corrupt(bucketBatches, key, "the block reaches into the next one")
			}
			c.checkBatch(l, &r.batch)
		}
		if n == 0 && !r.bad {
			return corrupt(bucketBatches, key, "the block is empty")
		}
		return r.err()
	})
	for _, id := range sortedKeys(c.logs) {
		c.checkEnd(c.logs[id])
	}
}

func (c *checker) checkBatch(l *logCheck, b *Batch) {
	bad := func(what string) {
		c.problem("log %s-%d, batch at %d: %s", l.key.Topic, l.key.Partition, b.BaseOffset, what)
	}
	if l.row == l.FirstRow {
		if b.LastOffset < l.LogStartOffset {
			bad("ends before log_start_offset")
		}
		if b.Timestamp() != l.EarliestBatchTimestamp {
			bad("has not the log's earliest timestamp")
		}
	} else if b.BaseOffset != l.next {
		bad("does not follow the one before")
	}
	if b.ID <= l.lastID || b.ID > c.meta.LastBatchID {
		bad("has an id out of order or never given")
	}
	c.digest.add(batchHash(l.ID, b))
	c.totals.Batches++
	c.refs[b.FileID]++
	l.bytes += b.ByteSize
	l.next, l.lastID = b.LastOffset+1, b.ID
	for level, size := range groupSizes {
		c.checkTime(l, level, size, b)
	}
	l.row++
}

// checkTime adds the batch to its group of a level and, when it is the last of
// the group, compares the group with its row.
func (c *checker) checkTime(l *logCheck, level int, size uint64, b *Batch) {
	g := &l.groups[level]
	if l.row%size == 0 || l.row == l.FirstRow {
		*g = timeGroup{max: b.Timestamp(), base: b.BaseOffset}
	}
	g.max = max(g.max, b.Timestamp())
	if (l.row+1)%size != 0 {
		return
	}
	c.index[bucketBatchTimes]++
	key := appendBatchTimeKey(nil, l.ID, level, l.row/size)
	row := c.tx.Bucket([]byte(bucketBatchTimes.String())).Get(key)
	if row == nil {
		c.problem("bucket batch_times, key %x: row is missing", key)
		return
	}
	payload, err := openRow(bucketBatchTimes, key, row)
	if err != nil {
		return // the scan of the bucket says so
	}
	r := rowReader{buf: payload}
	stored := readTimeGroup(&r)
	if err := r.done(bucketBatchTimes, key); err != nil {
		c.problem("%v", err)
		return
	}
	c.compareGroup(l, level, l.row/size, stored)
}

// compareGroup compares a stored group with the recounted one. A group that lost
// batches may have kept a larger maximum and an earlier base.
func (c *checker) compareGroup(l *logCheck, level int, group uint64, stored timeGroup) {
	counted := l.groups[level]
	whole := l.FirstRow <= group*groupSizes[level]
	if whole && stored == counted || !whole && stored.max >= counted.max && stored.base <= counted.base {
		return
	}
	c.problem("log %s-%d, group %d of level %d: stored %+v, counted %+v", l.key.Topic, l.key.Partition, group, level, stored, counted)
}

// checkEnd compares what the blocks of a log added up to with its row.
func (c *checker) checkEnd(l *logCheck) {
	bad := func(what string, stored, counted any) {
		c.problem("log %s-%d: %s is %v, counted %v", l.key.Topic, l.key.Partition, what, stored, counted)
	}
	if l.row != l.NextRow {
		bad("next row", l.NextRow, l.row)
	}
	if l.bytes != l.ByteSize {
		bad("byte_size", l.ByteSize, l.bytes)
	}
	if l.row == l.FirstRow {
		return
	}
	if l.next != l.HighWatermark {
		bad("high_watermark", l.HighWatermark, l.next)
	}
	for level, size := range groupSizes {
		if l.row%size != 0 {
			c.compareGroup(l, level, l.row/size, l.open[level])
		}
	}
}
