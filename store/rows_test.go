package store

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateGolden = flag.Bool("update", false, "write testdata/rows.golden anew")

// sampleState writes at least one row of every bucket.
func sampleState(t testing.TB, s *Store) {
	a, b := TopicID{0xaa, 15: 1}, TopicID{0xbb, 15: 2}
	update(t, s, func(tx *WriteTx) {
		tx.SetFeatureLevel(EventLevel)
		tx.SetClusterID([16]byte{0xc0, 0xff, 0xee})
		tx.SetClock(1_700_000_000_123)
		require.NoError(t, tx.PutTopic(a, Topic{Name: "orders", Origin: OriginClassic, CreatedAt: 1_700_000_000_000,
			Config: map[string]string{"retention.ms": "-1", "cleanup.policy": "delete"}}))
		require.NoError(t, tx.PutTopic(b, Topic{Name: "gone", Origin: OriginDiskless, CreatedAt: -5}))
		require.NoError(t, tx.CreateLog(LogKey{a, 7}, NewLog(10, 20)))
		require.NoError(t, tx.CreateLog(LogKey{b, 0}, NewLog(0, 0)))
		_, err := tx.SoftDeleteTopic(b, 1_700_000_000_001)
		require.NoError(t, err)

		l, _, err := tx.Log(LogKey{a, 7})
		require.NoError(t, err)
		l.RemoteLogStartOffset = 15
		file := tx.NextFileID()
		for i := range int64(300) {
			require.NoError(t, tx.AppendBatch(&l, Batch{FileID: file, ByteOffset: i * 1000, ByteSize: 1000, Magic: 2, TimestampType: int8(i % 2),
				LogAppendTimestamp: 1_700_000_000_100 + i/10, BatchMaxTimestamp: 1_700_000_000_000 + 7*i%100}, 1+i%3))
		}
		replay := Replay{Digest: [16]byte{1, 2, 3}, ClockMs: 1_700_000_000_100, Partitions: []ReplayPartition{{20, 10}},
			Outcomes: []byte{0, 3, 1}, Duplicates: []ReplayDuplicate{{Batch: 2, AssignedOffset: 11, TimestampMs: -1}}}
		require.NoError(t, tx.CreateFile(File{ID: file, ObjectKey: "wal/one", Format: 1, Reason: FileReasonProduce, UploaderBrokerID: 3,
			CommittedAt: 1_700_000_000_100, Size: 300_000, BatchCount: 300}, replay))
		_, err = tx.TrimBatches(&l, 1, 5, func(*Batch) bool { return true })
		require.NoError(t, err)
		l.LogStartOffset = 28
		require.NoError(t, tx.PutLog(LogKey{a, 7}, l))
		require.NoError(t, tx.CreateFile(File{ID: tx.NextFileID(), ObjectKey: "wal/none", Format: 2, Reason: FileReasonProduce, UploaderBrokerID: -1,
			CommittedAt: 1_700_000_000_101, Size: 0}, Replay{ClockMs: 1_700_000_000_101}))
		var p Producer
		p.Epoch, p.UpdatedAt = 4, 1_700_000_000_100
		for i := range int32(3) {
			p.Remember(ProducerEntry{BaseSequence: i * 10, LastSequence: i*10 + 9, AssignedOffset: int64(20 + i*10), BatchMaxTimestamp: -1})
		}
		require.NoError(t, tx.PutProducer(l.ID, 1<<33, p))
		require.NoError(t, tx.PutFence("wal/late", 1_700_000_600_000))
		sampleSwitch(t, tx)
		require.NoError(t, tx.SetApplied(1234, 5))
	})
}

// sampleSwitch writes a sealed partition, and a broker that is being wiped.
func sampleSwitch(t testing.TB, tx *WriteTx) {
	k := LogKey{TopicID{0xcc, 15: 3}, 2}
	require.NoError(t, tx.PutTopic(k.Topic, Topic{Name: "switched", Origin: OriginClassic, CreatedAt: 1_700_000_000_002}))
	require.NoError(t, tx.CreateLog(k, NewLog(5, 40)))
	require.NoError(t, tx.PutRegistration(k, Registration{Replicas: []int32{3, 1, 300}, ISR: []int32{3, 300}, Leader: 300, LeaderEpoch: 7, PartitionEpoch: 11,
		ClassicToDisklessStartOffset: 40, ClassicPrefixInRemoteStorage: true, DisklessLeaderEpoch: 6, SealedBy: 3}))
	require.NoError(t, tx.PutSealProducers(k, []SealProducer{{ProducerID: 1 << 40, Epoch: 2,
		ProducerEntry: ProducerEntry{BaseSequence: 3, LastSequence: 4, AssignedOffset: 30, BatchMaxTimestamp: -1}}}))
	require.NoError(t, tx.PutBroker(3, Broker{Epoch: tx.NextBrokerEpoch(), IncarnationID: "i-3", Rack: "r1", Endpoints: []string{"a:1", "b:2"}}))
	require.NoError(t, tx.PutBroker(1, Broker{Epoch: tx.NextBrokerEpoch(), IncarnationID: "i-1", Fenced: true, Walk: Walk{WalkWipe, k}}))
}

// TestGoldenRows holds the bytes of every kind of row. When it fails, the layout
// on disk has changed: that takes a new SchemaVersion and an upgrade.
func TestGoldenRows(t *testing.T) {
	const path = "testdata/rows.golden"
	s := openTest(t)
	sampleState(t, s)
	var got strings.Builder
	view(t, s, func(tx *ReadTx) {
		for b := range bucket(bucketCount) {
			fmt.Fprintf(&got, "%s\n", b)
			require.NoError(t, tx.bucket(b).ForEach(func(k, row []byte) error {
				fmt.Fprintf(&got, "\t%s\n\t\t%s\n", hex.EncodeToString(k), hex.EncodeToString(row))
				return nil
			}))
		}
	})
	if *updateGolden {
		require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
	require.NotContains(t, bucketRows(got.String()), 0, "a bucket without a row proves nothing")
}

// bucketRows is how many rows each bucket of a dump has.
func bucketRows(dump string) (rows []int) {
	for line := range strings.Lines(dump) {
		switch {
		case !strings.HasPrefix(line, "\t"):
			rows = append(rows, 0)
		case !strings.HasPrefix(line, "\t\t"):
			rows[len(rows)-1]++
		}
	}
	return rows
}

// decoders turn a payload into its value and that back into a payload.
var decoders = map[string]func(payload []byte) ([]byte, error){
	"topic": func(p []byte) ([]byte, error) {
		v, err := decodeTopic(nil, p)
		return appendTopic(nil, &v), err
	},
	"log": func(p []byte) ([]byte, error) {
		v, err := decodeLog(nil, p)
		return appendLog(nil, &v), err
	},
	"file": func(p []byte) ([]byte, error) {
		v, err := decodeFile(make([]byte, fileKeySize), p)
		return appendFile(nil, &v), err
	},
	"replay": func(p []byte) ([]byte, error) {
		v, err := decodeReplay(nil, p)
		return appendReplay(nil, &v), err
	},
	"producer": func(p []byte) ([]byte, error) {
		v, err := decodeProducer(nil, p)
		return appendProducer(nil, &v), err
	},
	"broker": func(p []byte) ([]byte, error) {
		v, err := decodeBroker(nil, p)
		return appendBroker(nil, &v), err
	},
	"registration": func(p []byte) ([]byte, error) {
		v, err := decodeRegistration(nil, p)
		return appendRegistration(nil, &v), err
	},
	"seal producers": func(p []byte) ([]byte, error) {
		v, err := decodeSealProducers(nil, p)
		return appendSealProducers(nil, v), err
	},
	"meta": func(p []byte) ([]byte, error) {
		v, err := decodeMeta(p)
		return appendMeta(nil, &v), err
	},
	"block": func(p []byte) ([]byte, error) {
		r := newBlockReader(make([]byte, batchKeySize), p)
		out := append([]byte(nil), p[:len(p)-len(r.buf)]...)
		var prev Batch
		for r.next() {
			out = appendBlockBatch(out, &prev, &r.batch)
			prev = r.batch
		}
		return out, r.err()
	},
}

// FuzzRowDecoders: whatever the bytes, a decoder neither panics nor allocates
// more than the row could hold, and what it accepts means the same when it is
// written and read again.
func FuzzRowDecoders(f *testing.F) {
	s := openTest(f)
	sampleState(f, s)
	view(f, s, func(tx *ReadTx) {
		for b := range bucket(bucketCount) {
			require.NoError(f, tx.bucket(b).ForEach(func(_, row []byte) error {
				f.Add(append([]byte(nil), row[:len(row)-crcSize]...))
				return nil
			}))
		}
	})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, payload []byte) {
		for name, decode := range decoders {
			once, err := decode(payload)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt, name)
				continue
			}
			twice, err := decode(once)
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(once, twice), "%s: %x, then %x", name, once, twice)
		}
	})
}

func TestRowsAreChecked(t *testing.T) {
	key, row := []byte("key"), sealRow([]byte("key"), []byte("payload"))
	payload, err := openRow(bucketFiles, key, row)
	require.NoError(t, err)
	require.Equal(t, "payload", string(payload))
	for i := range row {
		bad := bytes.Clone(row)
		bad[i] ^= 4
		_, err := openRow(bucketFiles, key, bad)
		require.ErrorIs(t, err, ErrCorrupt)
	}
	_, err = openRow(bucketFiles, []byte("kez"), row)
	require.ErrorIs(t, err, ErrCorrupt, "the key is covered too")
	_, err = openRow(bucketFiles, key, row[:3])
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestLengthsAreBoundedByTheRow(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	topic := append(appendTopic(nil, &Topic{Name: "x"})[:len(appendTopic(nil, &Topic{Name: "x"}))-1], huge...)
	replay := append(make([]byte, 17), huge...)
	allocated := testing.AllocsPerRun(10, func() {
		_, err := decodeTopic(nil, topic)
		require.ErrorIs(t, err, ErrCorrupt)
		_, err = decodeReplay(nil, replay)
		require.ErrorIs(t, err, ErrCorrupt)
	})
	require.Less(t, allocated, 40.0)
}
