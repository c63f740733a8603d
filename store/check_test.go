package store

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// variedState is a closed file that has rows in every bucket, cut and whole
// timestamp groups, blocks of all kinds, pages that were freed, and trees of
// some depth. It returns its path and the log that has most of it.
func variedState(t testing.TB, commits int) (path string, busy LogKey) {
	w := newWorld(t, 11, 6)
	for range commits {
		update(t, w.s, func(tx *WriteTx) { w.commit(tx, 30) })
	}
	update(t, w.s, func(tx *WriteTx) {
		tx.SetFeatureLevel(EventLevel)
		w.trim(tx, w.logs[0], 17)
		w.trim(tx, w.logs[1], len(w.logs[1].batches))
		w.trim(tx, w.logs[5], 40)
		w.append(tx, w.logs[1], 1, 0)
		f, _, err := tx.File(1)
		require.NoError(t, err)
		f.BatchCount++
		_, err = tx.files.write(tx, 1, f)
		require.NoError(t, err)
		_, err = tx.SoftDeleteTopic(w.logs[5].key.Topic, w.now) // logs 4 and 5
		require.NoError(t, err)
		for i := range int64(50) {
			require.NoError(t, tx.PutProducer(uint64(1+i%6), i, Producer{Epoch: 1, Count: 1, UpdatedAt: i}))
			require.NoError(t, tx.PutFence(string(appendID([]byte("wal/fenced-"), uint64(i))), w.now+i))
		}
		w.commitNothing(tx)
		sampleSwitch(t, tx)
		require.NoError(t, tx.DropReplay(2))
		require.NoError(t, tx.SetApplied(77, 3))
		tx.SetClock(w.now)
	})
	require.NoError(t, w.s.Close())
	return w.s.path, w.logs[0].key
}

// commitNothing makes a file whose batches were all refused.
func (w *world) commitNothing(tx *WriteTx) {
	id := tx.NextFileID()
	require.NoError(w.t, tx.CreateFile(File{ID: id, ObjectKey: "wal/refused", CommittedAt: w.now}, Replay{ClockMs: w.now}))
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

// edit rewrites the row of a key with valid CRC, past all accounting.
func edit[V any](t *testing.T, tx *WriteTx, b bucket, key []byte, decode func(key, payload []byte) (V, error), encode func([]byte, *V) []byte, change func(*V)) {
	t.Helper()
	payload, ok, err := tx.get(b, key)
	require.NoError(t, err)
	require.True(t, ok)
	v, err := decode(key, payload)
	require.NoError(t, err)
	change(&v)
	require.NoError(t, tx.putRaw(b, bytes.Clone(key), encode(nil, &v)))
}

// firstKey and nthKey are keys of a bucket from a prefix on.
func firstKey(tx *WriteTx, b bucket, prefix []byte) []byte {
	k, _ := tx.bucket(b).Cursor().Seek(prefix)
	return bytes.Clone(k)
}

func nthKey(tx *WriteTx, b bucket, prefix []byte, n int) []byte {
	c := tx.bucket(b).Cursor()
	k, _ := c.Seek(prefix)
	for range n {
		k, _ = c.Next()
	}
	return bytes.Clone(k)
}

func TestCheckNamesTheDamage(t *testing.T) {
	base, busy := variedState(t, 120)
	logKey := appendLogKey(nil, busy)
	var busyLog Log

	log := func(change func(*Log)) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) { edit(t, tx, bucketLogs, logKey, decodeLog, appendLog, change) }
	}
	file := func(change func(*File)) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) {
			edit(t, tx, bucketFiles, appendID(nil, 3), decodeFile, appendFile, change)
		}
	}
	meta := func(change func(*Meta)) func(*testing.T, *WriteTx) {
		return func(_ *testing.T, tx *WriteTx) { change(&tx.meta) }
	}
	drop := func(b bucket) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.deleteRaw(b, firstKey(tx, b, nil))) }
	}
	add := func(b bucket, key, payload []byte) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.putRaw(b, key, bytes.Clone(payload))) }
	}
	group := func(n int, change func(*timeGroup)) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) {
			decode := func(_, payload []byte) (timeGroup, error) {
				r := rowReader{buf: payload}
				return readTimeGroup(&r), nil
			}
			encode := func(b []byte, g *timeGroup) []byte { return appendTimeGroup(b, *g) }
			edit(t, tx, bucketBatchTimes, appendBatchTimeKey(nil, busyLog.ID, 0, uint64(n)), decode, encode, change)
		}
	}
	// block re-encodes the n-th block of the busy log from its changed batches, under the changed key.
	block := func(n int, change func(key *[]byte, batches *[]Batch)) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) {
			key := nthKey(tx, bucketBatches, appendID(nil, busyLog.ID), n)
			payload, _, err := tx.get(bucketBatches, key)
			require.NoError(t, err)
			r := newBlockReader(key, payload)
			start := r.batch.LastOffset + 1
			var batches []Batch
			for r.next() {
				batches = append(batches, r.batch)
			}
			newKey := bytes.Clone(key)
			change(&newKey, &batches)
			out, prev := binary.AppendVarint(nil, start), Batch{}
			for i := range batches {
				out = appendBlockBatch(out, &prev, &batches[i])
				prev = batches[i]
			}
			require.NoError(t, tx.deleteRaw(bucketBatches, key))
			require.NoError(t, tx.putRaw(bucketBatches, newKey, out))
		}
	}

	cases := []struct {
		name   string
		damage func(*testing.T, *WriteTx)
		want   string
	}{
		{"byte_size", log(func(l *Log) { l.ByteSize++ }), "byte_size is"},
		{"high watermark", log(func(l *Log) { l.HighWatermark++ }), "high_watermark is"},
		{"log start above high watermark", log(func(l *Log) { l.LogStartOffset = l.HighWatermark + 1 }), "log_start_offset"},
		{"negative log start", log(func(l *Log) { l.LogStartOffset = -1 }), "log_start_offset -1"},
		{"batch below log start", log(func(l *Log) { l.LogStartOffset = l.HighWatermark }), "ends before log_start_offset"},
		{"earliest timestamp", log(func(l *Log) { l.EarliestBatchTimestamp++ }), "earliest timestamp"},
		{"next row", log(func(l *Log) { l.NextRow++ }), "next row is"},
		{"row numbers", log(func(l *Log) { l.FirstRow, l.NextRow = l.NextRow, l.FirstRow }), "first row"},
		{"open group's maximum", log(func(l *Log) { l.open[0].max-- }), "of level 0: stored"},
		{"open group's base", log(func(l *Log) { l.open[1].base = 1 << 40 }), "of level 1: stored"},
		{"log id given twice", log(func(l *Log) { l.ID++ }), "is used twice"},
		{"log id never given", log(func(l *Log) { l.ID = 1000 }), "was never given"},
		{"live log of no topic", func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.deleteRaw(bucketTopics, busy.Topic[:])) }, "the topic is missing"},
		{"deleted log of a live topic", log(func(l *Log) { l.Deleted = true }), "deleted true, its topic false"},
		{"batches of no log", func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.deleteRaw(bucketLogs, logKey)) }, "the log is missing"},
		{"topic's log count", func(t *testing.T, tx *WriteTx) {
			edit(t, tx, bucketTopics, busy.Topic[:], decodeTopic, appendTopic, func(top *Topic) { top.Logs++ })
		}, "counts 5 logs, has 4"},
		{"two topics of one name", add(bucketTopics, []byte("0123456789abcdef"), appendTopic(nil, &Topic{Name: "topic-0"})), "instead of 30313233343536373839616263646566"},

		{"group of a whole log too low", group(1, func(g *timeGroup) { g.max-- }), "group 1 of level 0"},
		{"group of a whole log too high", group(1, func(g *timeGroup) { g.max++ }), "group 1 of level 0"},
		{"cut group too low", group(0, func(g *timeGroup) { g.max -= 10_000 }), "group 0 of level 0"},
		{"cut group's base too high", group(0, func(g *timeGroup) { g.base = 1 << 40 }), "group 0 of level 0"},
		{"batch_times row missing", drop(bucketBatchTimes), "bucket batch_times, key"},
		{"batch_times row too many", add(bucketBatchTimes, appendBatchTimeKey(nil, 1, 1, 9), appendTimeGroup(nil, timeGroup{})), "bucket batch_times has"},

		{"block missing", func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.deleteRaw(bucketBatches, nthKey(tx, bucketBatches, appendID(nil, busyLog.ID), 2)))
		}, "does not follow"},
		{"first block missing", func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.deleteRaw(bucketBatches, firstKey(tx, bucketBatches, appendID(nil, busyLog.ID))))
		}, "next row is"},
		{"block under a later key", block(2, func(key *[]byte, _ *[]Batch) { (*key)[15]++ }), "not the block's first offset"},
		{"block under an earlier key", block(2, func(key *[]byte, _ *[]Batch) { (*key)[15]-- }), "not the block's first offset"},
		{"block of one batch too few", block(2, func(_ *[]byte, b *[]Batch) { *b = (*b)[:len(*b)-1] }), "the block before is not full"},
		{"block of one batch too many", block(2, func(_ *[]byte, b *[]Batch) { *b = append(*b, (*b)[len(*b)-1]) }), "reaches into the next one"},
		{"block without batches", block(2, func(_ *[]byte, b *[]Batch) { *b = nil }), "the block is empty"},
		{"batch id out of order", block(2, func(_ *[]byte, b *[]Batch) { (*b)[3].ID = 1 }), "id out of order"},
		{"batch of no file", block(2, func(_ *[]byte, b *[]Batch) { (*b)[3].FileID = 999 }), "file 999 is missing, 1 batches"},

		{"batch count", file(func(f *File) { f.BatchCount++ }), "file 3: batch_count is"},
		{"deleting with batches", file(func(f *File) { f.State = FileDeleting }), "file 3: state 2"},
		{"uploaded without batches", func(t *testing.T, tx *WriteTx) {
			edit(t, tx, bucketFiles, appendID(nil, 121), decodeFile, appendFile, func(f *File) { f.State = FileUploaded })
		}, "file 121: state 1 with batch_count 0"},
		{"file missing", func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.deleteRaw(bucketFiles, appendID(nil, 3))) }, "file 3 is missing"},
		{"file of another name", file(func(f *File) { f.ObjectKey = "other" }), "bucket file_keys, key 6f74686572: row is missing"},
		{"replay of no file", add(bucketReplays, appendID(nil, 2000), appendReplay(nil, &Replay{})), "replay of file 2000"},
		{"producer of no log", add(bucketProducers, appendProducerKey(nil, 2000, 1), appendProducer(nil, &Producer{})), "producer 1 of log 2000"},

		{"topic name missing", drop(bucketTopicNames), "bucket topic_names, key"},
		{"topic name too many", add(bucketTopicNames, []byte("zz"), make([]byte, 16)), "bucket topic_names has 3 rows, should have 2"},
		{"topic name of another", add(bucketTopicNames, []byte("topic-0"), make([]byte, 16)), "row holds 0000"},
		{"deleted log missing", drop(bucketDeletedLogs), "bucket deleted_logs, key"},
		{"deleted log too many", add(bucketDeletedLogs, appendDeletedLogKey(nil, 1, busy), nil), "bucket deleted_logs has 3 rows, should have 2"},
		{"object key missing", drop(bucketFileKeys), "bucket file_keys, key"},
		{"object key too many", add(bucketFileKeys, []byte("zz"), make([]byte, 8)), "bucket file_keys has"},
		{"deleting file missing", drop(bucketDeletingFiles), "bucket deleting_files, key"},
		{"deleting file too many", add(bucketDeletingFiles, appendDeletingKey(nil, 1, 3), nil), "bucket deleting_files has"},
		{"fence time missing", drop(bucketFenceTimes), "bucket fence_times, key"},
		{"fence time too many", add(bucketFenceTimes, appendFenceTimeKey(nil, 1, "zz"), nil), "bucket fence_times has 51 rows, should have 50"},

		{"totals", meta(func(m *Meta) { m.Totals.Replays++ }), "totals: stored"},
		{"digest", meta(func(m *Meta) { m.Digest.lo++ }), "digest: stored"},
		{"last file id", meta(func(m *Meta) { m.LastFileID-- }), "id is above the last one given"},
		{"last batch id", meta(func(m *Meta) { m.LastBatchID-- }), "never given"},
		{"last log id", meta(func(m *Meta) { m.LastLogID-- }), "never given"},
		{"layout version", meta(func(m *Meta) { m.SchemaVersion++ }), "layout version 2"},
		{"second meta row", add(bucketMeta, []byte("stale"), nil), "bucket meta has"},

		{"length of a key", add(bucketFiles, []byte("short"), nil), "wrong length of key"},
		{"row does not decode", add(bucketFiles, appendID(nil, 3), []byte{1, 2, 3}), "does not decode"},
		{"fence does not decode", add(bucketFences, []byte("x"), []byte{1, 2, 3}), "does not decode"},
		{"checksum", func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.bucket(bucketFences).Put([]byte("x"), make([]byte, 9)))
		}, "checksum mismatch"},
		{"row without checksum", func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.bucket(bucketFences).Put([]byte("x"), nil)) }, "row is too short"},
		{"bucket missing", func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.btx.DeleteBucket([]byte("fences"))) }, "bucket fences is missing"},
		{"bucket too many", func(t *testing.T, tx *WriteTx) {
			_, err := tx.btx.CreateBucket([]byte("other"))
			require.NoError(t, err)
		}, "the file has 1 buckets that the layout does not have"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "damaged.db")
			copyFile(t, base, path)
			s, err := Open(path, Options{Sync: SyncNever})
			require.NoError(t, err)
			defer s.Close()
			update(t, s, func(tx *WriteTx) {
				busyLog, _, err = tx.Log(busy)
				require.NoError(t, err)
				c.damage(t, tx)
			})
			require.NoError(t, s.Close())
			r, err := Check(path)
			require.NoError(t, err)
			require.ErrorIs(t, r.Err(), ErrCorrupt)
			require.Contains(t, joined(r), c.want)
		})
	}
}

func joined(r Report) string {
	var b bytes.Buffer
	for _, p := range r.Problems {
		b.WriteString(p + "\n")
	}
	return b.String()
}

func TestCheckOfAWholeFile(t *testing.T) {
	path, _ := variedState(t, 120)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	r := requireWhole(t, path)
	s, err := Open(path, Options{Sync: SyncNever})
	require.NoError(t, err)
	view(t, s, func(tx *ReadTx) {
		m := tx.Meta()
		require.Equal(t, Report{AppliedIndex: 77, AppliedTerm: 3, LastClockMs: m.LastClockMs, Digest: m.Digest.String(), Totals: m.Totals}, r)
		d, err := DigestOf(tx)
		require.NoError(t, err)
		require.Equal(t, m.Digest, d)
	})
	require.NoError(t, s.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after), "a check changes nothing")
}

func TestDigestInAWriteTransaction(t *testing.T) {
	w := newWorld(t, 1, 3)
	update(t, w.s, func(tx *WriteTx) {
		w.commit(tx, 70)
		w.trim(tx, w.logs[0], 5)
		d, err := DigestOf(&tx.ReadTx)
		require.NoError(t, err)
		require.Equal(t, tx.Meta().Digest, d)
		require.NotEqual(t, Digest{}, d)
	})
}

func TestCheckThatCannotRead(t *testing.T) {
	_, err := Check(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	s := openTest(t)
	_, err = Check(s.Path())
	require.ErrorIs(t, err, ErrLocked)
}

func TestReportIsBounded(t *testing.T) {
	base, _ := variedState(t, 120)
	path := filepath.Join(t.TempDir(), "damaged.db")
	copyFile(t, base, path)
	s, err := Open(path, Options{Sync: SyncNever})
	require.NoError(t, err)
	update(t, s, func(tx *WriteTx) {
		for i := range uint64(100) {
			require.NoError(t, tx.bucket(bucketFences).Put(appendID(nil, i), nil))
		}
	})
	require.NoError(t, s.Close())
	r, err := Check(path)
	require.NoError(t, err)
	require.Len(t, r.Problems, maxProblems)
	require.GreaterOrEqual(t, r.MoreProblems, 80)
}
