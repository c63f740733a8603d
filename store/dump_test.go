package store

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// A dump has every row of every bucket, and of a block every batch.
func TestDumpHasEveryRow(t *testing.T) {
	path, _ := variedState(t, 60)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	var meta Meta
	rows, logs, bytes := map[string]int{}, map[uint64]float64{}, map[uint64]float64{}
	require.NoError(t, Dump(path, func(m Meta) error { meta = m; return nil }, func(r Row) error {
		rows[r.Bucket]++
		switch r.Bucket {
		case "logs":
			logs[r.Value["log_id"].(uint64)] = float64(r.Value["byte_size"].(int64))
		case "batches":
			bytes[r.Key["log_id"].(uint64)] += float64(r.Value["byte_size"].(int64))
		}
		_, err := json.Marshal(r)
		return err
	}))
	require.EqualValues(t, 77, meta.AppliedIndex)
	require.EqualValues(t, meta.Totals.Batches, rows["batches"])
	for id, size := range logs {
		require.InDelta(t, size, bytes[id], 0, "log %d", id)
	}
	require.EqualValues(t, meta.Totals.LiveLogs+meta.Totals.DeletedLogs, rows["logs"])
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true})
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		for b := bucketMeta + 1; b < bucketCount; b++ {
			if b != bucketBatches {
				require.Equal(t, tx.Bucket([]byte(b.String())).Inspect().KeyN, rows[b.String()], b)
			}
			require.Positive(t, rows[b.String()], b)
		}
		return nil
	}))
	require.NoError(t, db.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestDumpNamesFields(t *testing.T) {
	s := openTest(t)
	key := LogKey{topicID(1), 3}
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(key.Topic, Topic{Name: "t", Origin: OriginClassic, CreatedAt: 5, Config: map[string]string{"retention.ms": "7"}}))
		require.NoError(t, tx.CreateLog(key, NewLog(2, 2)))
		require.NoError(t, tx.PutFence("wal/9", -4))
	})
	require.NoError(t, s.Close())
	text := map[string]string{}
	require.NoError(t, Dump(s.path, func(Meta) error { return nil }, func(r Row) error {
		line, err := json.Marshal(r)
		text[r.Bucket] = string(line)
		return err
	}))
	require.Equal(t, map[string]string{
		"topics":      `{"bucket":"topics","key":{"topic_id":"25010000-0000-0000-0000-000000000001"},"value":{"config":{"retention.ms":"7"},"created_at":5,"logs":1,"origin":"classic","topic_name":"t"}}`,
		"topic_names": `{"bucket":"topic_names","key":{"topic_name":"t"},"value":{"topic_id":"25010000-0000-0000-0000-000000000001"}}`,
		"logs":        `{"bucket":"logs","key":{"partition":3,"topic_id":"25010000-0000-0000-0000-000000000001"},"value":{"byte_size":0,"diskless_start_offset":2,"first_row":0,"high_watermark":2,"log_id":1,"log_start_offset":2,"next_row":0}}`,
		"fences":      `{"bucket":"fences","key":{"object_key":"wal/9"},"value":{"fenced_until":-4}}`,
		"fence_times": `{"bucket":"fence_times","key":{"fenced_until":-4,"object_key":"wal/9"},"value":{}}`,
	}, text)
}

func TestDumpStopsAtDamage(t *testing.T) {
	s := openTest(t)
	update(t, s, func(tx *WriteTx) { require.NoError(t, tx.putRaw(bucketFences, []byte("wal/9"), []byte{1, 2})) })
	db := s.db
	require.ErrorIs(t, dumpOf(db, func(Row) error { return nil }), ErrCorrupt)
	update(t, s, func(tx *WriteTx) { require.NoError(t, tx.deleteRaw(bucketFences, []byte("wal/9"))) })
	update(t, s, func(tx *WriteTx) { require.NoError(t, tx.PutFence("wal/9", 4)) })
	enough := errors.New("enough")
	require.ErrorIs(t, dumpOf(db, func(Row) error { return enough }), enough)
}

func dumpOf(db *bbolt.DB, row func(Row) error) error {
	return db.View(func(tx *bbolt.Tx) error { return dumpBucket(tx, bucketFences, row) })
}
