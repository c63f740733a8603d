package store

import "bytes"

// Log is the row of a partition, live or soft-deleted.
func (tx *ReadTx) Log(k LogKey) (Log, bool, error) { return tx.logs.read(tx, k) }

// LiveLog is the row of a partition that is not soft-deleted: for every
// operation but purge the others do not exist.
func (tx *ReadTx) LiveLog(k LogKey) (Log, bool, error) {
	l, ok, err := tx.logs.read(tx, k)
	if err != nil || !ok || l.Deleted {
		return Log{}, false, err
	}
	return l, true, nil
}

// LogsOfTopic calls fn for each log of the topic with a partition above after,
// in order of partition, until it returns false; -1 is below all partitions.
func (tx *ReadTx) LogsOfTopic(id TopicID, after int32, fn func(LogKey, *Log) (bool, error)) error {
	if tx.write != nil {
		if err := tx.logs.flush(tx.write); err != nil {
			return err
		}
	}
	var room [logKeySize]byte
	return tx.scan(bucketLogs, appendLogKey(room[:0], LogKey{id, after + 1}), func(key, payload []byte) (bool, error) {
		if !bytes.HasPrefix(key, id[:]) {
			return false, nil
		}
		l, err := decodeLog(key, payload)
		if err != nil {
			return false, err
		}
		return fn(decodeLogKey(key), &l)
	})
}

// NewLog is the row of a log without batches that begins at start and has its
// high watermark at disklessStart.
func NewLog(start, disklessStart int64) Log {
	return Log{LogStartOffset: start, HighWatermark: disklessStart, DisklessStartOffset: disklessStart, RemoteLogStartOffset: Absent}
}

// CreateLog gives l an internal id and writes it. Its topic must have a row; the
// partition must not.
func (tx *WriteTx) CreateLog(k LogKey, l Log) error {
	t, ok, err := tx.Topic(k.Topic)
	if err != nil {
		return err
	}
	if !ok {
		return corrupt(bucketTopics, k.Topic[:], "topic of a new log is missing")
	}
	t.Logs++
	tx.changed(topicRef(k.Topic))
	if _, err := tx.topics.write(tx, k.Topic, t); err != nil {
		return err
	}
	tx.meta.LastLogID++
	l.ID = tx.meta.LastLogID
	tx.meta.Totals.LiveLogs++
	_, err = tx.logs.write(tx, k, l)
	return err
}

// PutLog writes the row of an existing live log.
func (tx *WriteTx) PutLog(k LogKey, l Log) error {
	_, err := tx.logs.write(tx, k, l)
	return err
}

func (tx *WriteTx) softDeleteLog(k LogKey, nowMs int64) error {
	l, ok, err := tx.LiveLog(k)
	if err != nil || !ok {
		return err
	}
	l.Deleted, l.DeletedAt = true, nowMs
	tx.meta.Totals.LiveLogs--
	tx.meta.Totals.DeletedLogs++
	if err := tx.PutLog(k, l); err != nil {
		return err
	}
	key := appendDeletedLogKey(tx.arena.buf(deletedLogKeySize), nowMs, k)
	return tx.putRaw(bucketDeletedLogs, key, tx.arena.buf(crcSize))
}

// DeletedLog names a soft-deleted log; the order of purging is that of
// (DeletedAt, Key).
type DeletedLog struct {
	DeletedAt int64
	Key       LogKey
}

// DeletedLogs calls fn for each soft-deleted log after the given one (nil: from
// the oldest), oldest delete first, until it returns false. fn must not purge.
func (tx *ReadTx) DeletedLogs(after *DeletedLog, fn func(DeletedLog) bool) error {
	var room [deletedLogKeySize]byte
	start := room[:0]
	if after != nil {
		start = appendDeletedLogKey(start, after.DeletedAt, after.Key)
	}
	return tx.scan(bucketDeletedLogs, start, func(key, _ []byte) (bool, error) {
		if bytes.Equal(key, start) {
			return true, nil
		}
		return fn(DeletedLog{DeletedAt: decodeTime(key), Key: decodeLogKey(key[8:])}), nil
	})
}

// DropLog removes a soft-deleted log that has neither batches nor producer
// states left, and with the last log of a topic the topic's row.
func (tx *WriteTx) DropLog(k LogKey) error {
	l, ok, err := tx.Log(k)
	if err != nil {
		return err
	}
	if !ok || !l.Deleted || l.Batches() != 0 {
		return corrupt(bucketLogs, appendLogKey(nil, k), "log to drop is live, missing or not empty")
	}
	if err := tx.delete(bucketDeletedLogs, appendDeletedLogKey(tx.arena.buf(deletedLogKeySize), l.DeletedAt, k)); err != nil {
		return err
	}
	if _, err := tx.logs.remove(tx, k); err != nil {
		return err
	}
	tx.meta.Totals.DeletedLogs--
	t, ok, err := tx.Topic(k.Topic)
	if err != nil {
		return err
	}
	if !ok {
		return corrupt(bucketTopics, k.Topic[:], "topic of a dropped log is missing")
	}
	if t.Logs--; t.Logs == 0 {
		_, err = tx.topics.remove(tx, k.Topic)
		return err
	}
	_, err = tx.topics.write(tx, k.Topic, t)
	return err
}
