package store

import (
	"encoding/hex"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Row is one row of a state, decoded for people and tools. Of a block of batches
// each batch is a row. What encoding/json makes of it has sorted keys.
type Row struct {
	Bucket string         `json:"bucket"`
	Key    map[string]any `json:"key"`
	Value  map[string]any `json:"value"`
}

// Dump reads a state file that no process has open for writing and changes
// nothing: head gets its meta row, row every other row, bucket by bucket in the
// order of keys, rows of indexes too. It stops at the first error, of theirs too,
// which wraps ErrCorrupt or ErrSchema when it is the file's. Damage of the pages
// can make bbolt panic: check the file in a child before.
func Dump(path string, head func(Meta) error, row func(Row) error) error {
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: defaultLockTimeout})
	if err != nil {
		return err
	}
	err = db.View(func(btx *bbolt.Tx) error {
		meta, err := layoutOf(btx)
		if err != nil {
			return err
		}
		if err := head(meta); err != nil {
			return err
		}
		for b := bucketMeta + 1; b < bucketCount; b++ {
			if err := dumpBucket(btx, b, row); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

func dumpBucket(btx *bbolt.Tx, b bucket, row func(Row) error) error {
	d := dumpTable[b]
	rows := btx.Bucket([]byte(b.String()))
	if rows == nil {
		return nil
	}
	return rows.ForEach(func(key, sealed []byte) error {
		if d.keySize > 0 && len(key) != d.keySize || len(key) < -d.keySize {
			return corrupt(b, key, "wrong length of key")
		}
		payload, err := openRow(b, key, sealed)
		if err != nil {
			return err
		}
		if b == bucketBatches {
			return dumpBlock(key, payload, row)
		}
		value, err := d.value(key, payload)
		if err != nil {
			return err
		}
		return row(Row{Bucket: b.String(), Key: d.key(key), Value: value})
	})
}

// values are the fields of a key or a payload by their names.
type values = map[string]any

// dumpTable says how each bucket but meta and batches decodes. keySize is that of
// its keys; where they are of any length, the least one, negative.
var dumpTable = [bucketCount]struct {
	keySize int
	key     func([]byte) values
	value   func(key, payload []byte) (values, error)
}{
	bucketTopics:        {topicKeySize, topicOfKey, topicValues},
	bucketTopicNames:    {0, func(k []byte) values { return values{"topic_name": string(k)} }, topicIDValues},
	bucketLogs:          {logKeySize, logOfKey, logValues},
	bucketDeletedLogs:   {deletedLogKeySize, deletedLogOfKey, noValues},
	bucketBatches:       {batchKeySize, nil, nil},
	bucketBatchTimes:    {batchTimeKeySize, batchTimeOfKey, batchTimeValues},
	bucketFiles:         {fileKeySize, fileOfKey, fileValues},
	bucketFileKeys:      {0, objectOfKey, fileIDValues},
	bucketDeletingFiles: {deletingKeySize, deletingOfKey, noValues},
	bucketReplays:       {fileKeySize, fileOfKey, replayValues},
	bucketProducers:     {producerKeySize, producerOfKey, producerValues},
	bucketFences:        {0, objectOfKey, fenceValues},
	bucketFenceTimes:    {-fenceTimeKeyPrefix, fenceTimeOfKey, noValues},
	bucketBrokers:       {brokerKeySize, brokerOfKey, brokerValues},
	bucketRegistrations: {logKeySize, logOfKey, registrationValues},
	bucketReplicas:      {replicaKeySize, replicaOfKey, replicaValues},
	bucketSealProducers: {logKeySize, logOfKey, sealProducerValues},
	bucketEvents:        {eventKeySize, eventOfKey, eventValues},
}

func dumpBlock(key, payload []byte, row func(Row) error) error {
	logID, _ := decodeBatchKey(key)
	r := newBlockReader(key, payload)
	for r.next() {
		b := &r.batch
		err := row(Row{Bucket: bucketBatches.String(), Key: values{"log_id": logID, "base_offset": b.BaseOffset}, Value: values{
			"batch_id": b.ID, "last_offset": b.LastOffset, "file_id": b.FileID, "byte_offset": b.ByteOffset, "byte_size": b.ByteSize,
			"magic": b.Magic, "timestamp_type": b.TimestampType,
			"log_append_timestamp": b.LogAppendTimestamp, "batch_max_timestamp": b.BatchMaxTimestamp,
		}})
		if err != nil {
			return err
		}
	}
	return r.err()
}

func topicOfKey(k []byte) values { return values{"topic_id": TopicID(k).String()} }

func logOfKey(k []byte) values {
	log := decodeLogKey(k)
	return values{"topic_id": log.Topic.String(), "partition": log.Partition}
}

func deletedLogOfKey(k []byte) values {
	key := logOfKey(k[8:])
	key["deleted_at"] = decodeTime(k)
	return key
}

func batchTimeOfKey(k []byte) values {
	return values{"log_id": decodeID(k), "level": k[8], "group": decodeID(k[9:])}
}

func fileOfKey(k []byte) values { return values{"file_id": decodeID(k)} }

func objectOfKey(k []byte) values { return values{"object_key": string(k)} }

func deletingOfKey(k []byte) values {
	return values{"marked_for_deletion_at": decodeTime(k), "file_id": decodeID(k[8:])}
}

func producerOfKey(k []byte) values {
	logID, id := decodeProducerKey(k)
	return values{"log_id": logID, "producer_id": id}
}

func fenceTimeOfKey(k []byte) values {
	return values{"fenced_until": decodeTime(k), "object_key": string(k[fenceTimeKeyPrefix:])}
}

// noValues is for indexes whose keys say it all.
func noValues(key, payload []byte) (values, error) {
	if len(payload) > 0 {
		return nil, fmt.Errorf("%w: key %x: a row of an index has a payload", ErrCorrupt, key)
	}
	return values{}, nil
}

func topicIDValues(key, payload []byte) (values, error) {
	if len(payload) != topicKeySize {
		return nil, corrupt(bucketTopicNames, key, "wrong length of row")
	}
	return topicOfKey(payload), nil
}

func fileIDValues(key, payload []byte) (values, error) {
	if len(payload) != fileKeySize {
		return nil, corrupt(bucketFileKeys, key, "wrong length of row")
	}
	return fileOfKey(payload), nil
}

func topicValues(key, payload []byte) (values, error) {
	t, err := decodeTopic(key, payload)
	config := values{}
	for name, value := range t.Config {
		config[name] = value
	}
	v := values{"topic_name": t.Name, "origin": t.Origin.String(), "created_at": t.CreatedAt, "logs": t.Logs, "config": config}
	if t.Deleted {
		v["deleted_at"] = t.DeletedAt
	}
	return v, err
}

func logValues(key, payload []byte) (values, error) {
	l, err := decodeLog(key, payload)
	v := values{
		"log_id": l.ID, "log_start_offset": l.LogStartOffset, "high_watermark": l.HighWatermark, "byte_size": l.ByteSize,
		"diskless_start_offset": l.DisklessStartOffset, "first_row": l.FirstRow, "next_row": l.NextRow,
	}
	if l.RemoteLogStartOffset != Absent {
		v["remote_log_start_offset"] = l.RemoteLogStartOffset
	}
	if l.Batches() > 0 {
		v["earliest_batch_timestamp"] = l.EarliestBatchTimestamp
	}
	if l.Deleted {
		v["deleted_at"] = l.DeletedAt
	}
	return v, err
}

func batchTimeValues(key, payload []byte) (values, error) {
	r := rowReader{buf: payload}
	g := readTimeGroup(&r)
	return values{"max_timestamp": g.max, "base_offset": g.base}, r.done(bucketBatchTimes, key)
}

func fileValues(key, payload []byte) (values, error) {
	f, err := decodeFile(key, payload)
	v := values{
		"object_key": f.ObjectKey, "format": f.Format, "reason": f.Reason.String(), "state": f.State.String(),
		"uploader_broker_id": f.UploaderBrokerID, "committed_at": f.CommittedAt, "size": f.Size, "batch_count": f.BatchCount,
	}
	if f.State == FileDeleting {
		v["marked_for_deletion_at"] = f.MarkedForDeletionAt
	}
	return v, err
}

func replayValues(key, payload []byte) (values, error) {
	p, err := decodeReplay(key, payload)
	partitions := make([]values, len(p.Partitions))
	for i, part := range p.Partitions {
		partitions[i] = values{"first_offset": part.FirstOffset, "log_start_offset": part.LogStartOffset}
	}
	duplicates := make([]values, len(p.Duplicates))
	for i, d := range p.Duplicates {
		duplicates[i] = values{"batch": d.Batch, "assigned_offset": d.AssignedOffset, "timestamp": d.TimestampMs}
	}
	return values{
		"request_digest": hex.EncodeToString(p.Digest[:]), "clock": p.ClockMs, "partitions": partitions,
		"outcomes": hex.EncodeToString(p.Outcomes), "duplicates": duplicates,
	}, err
}

func producerValues(key, payload []byte) (values, error) {
	p, err := decodeProducer(key, payload)
	entries := make([]values, p.Count)
	for i, e := range p.Recent() {
		entries[i] = values{
			"base_sequence": e.BaseSequence, "last_sequence": e.LastSequence,
			"assigned_offset": e.AssignedOffset, "batch_max_timestamp": e.BatchMaxTimestamp,
		}
	}
	return values{"producer_epoch": p.Epoch, "updated_at": p.UpdatedAt, "entries": entries}, err
}

func fenceValues(key, payload []byte) (values, error) {
	r := rowReader{buf: payload}
	until := r.int()
	return values{"fenced_until": until}, r.done(bucketFences, key)
}
