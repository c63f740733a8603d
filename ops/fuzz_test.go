package ops

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

// FuzzDecode: bytes behind a right checksum never panic, and what decodes has one
// encoding that decodes to the same.
func FuzzDecode(f *testing.F) {
	addSampleBodies(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(sealed(body))
		if err != nil {
			require.ErrorIs(t, err, ErrEntry)
			return
		}
		data, err := Encode(e.Command, e.NowMs)
		require.NoError(t, err)
		again, err := Decode(data)
		require.NoError(t, err)
		if c, ok := e.Command.(*commitFile); ok {
			c.digest = again.Command.(*commitFile).digest // of bytes that may have been longer than they need to be
		}
		require.Equal(t, e, again)
		twice, err := Encode(again.Command, again.NowMs)
		require.NoError(t, err)
		require.Equal(t, data, twice)
	})
}

func addSampleBodies(f *testing.F) {
	for _, cmd := range append(sampleCommands(), switchCommands()...) {
		data, err := Encode(cmd, 1_700_000_000_000)
		require.NoError(f, err)
		f.Add(data[entryHeader:])
	}
}

// FuzzApply: an entry that decodes never panics, whatever it holds, and one that
// cannot be carried out leaves the state as it was.
func FuzzApply(f *testing.F) {
	addSampleBodies(f)
	image := sampleState(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(sealed(body))
		if err != nil {
			return
		}
		if c, ok := e.Command.(*createTopic); ok && c.topic.NumPartitions > 1000 {
			return // bounded, but long
		}
		path := filepath.Join(t.TempDir(), "state.db")
		require.NoError(t, os.WriteFile(path, image, 0o600))
		s, err := store.Open(path, store.Options{Sync: store.SyncNever, InitialMmapBytes: 1 << 20})
		require.NoError(t, err)
		before := metaOf(t, s)
		err = s.Update(func(tx *store.WriteTx) error {
			_, err := Apply(tx, e)
			return err
		})
		if err != nil {
			require.Equal(t, before, metaOf(t, s))
		}
		require.NoError(t, s.Close())
	})
}

func metaOf(t testing.TB, s *store.Store) (m store.Meta) {
	require.NoError(t, s.View(func(tx *store.ReadTx) error {
		m = tx.Meta()
		return nil
	}))
	return m
}

// sampleState is the file of a state in which the sample commands find something:
// a live topic and a deleted one, each with batches and producers, and one in the switch.
func sampleState(t testing.TB) []byte {
	path := filepath.Join(t.TempDir(), "sample.db")
	s, err := store.Open(path, store.Options{Sync: store.SyncNever, InitialMmapBytes: 1 << 20})
	require.NoError(t, err)
	commit := func(key string, id store.TopicID) Command {
		c := &commitFile{coalesce: true, request: CommitFileRequest{ObjectKey: key}}
		for p := range int32(4) {
			c.request.Batches = append(c.request.Batches, CommitBatch{TopicID: id, Partition: p, ByteSize: 10, LastOffset: 9, ProducerID: 7})
		}
		return c
	}
	for _, cmd := range []Command{
		&createTopic{topic: CreateTopic{TopicID: idA, TopicName: "a", NumPartitions: 4}, maxPartitions: 4},
		&createTopic{topic: CreateTopic{TopicID: idB, TopicName: "b", NumPartitions: 4}, maxPartitions: 4},
		commit("wal/0", idA), commit("wal/2", idB), commit("wal/3", store.TopicID{1}), &deleteTopic{id: idB}, &fenceFile{key: "wal/9", fence: true, fenceMs: 5},
		&registerBroker{RegisterBrokerRequest{BrokerID: 2, IncarnationID: "i", CleanShutdown: true}, 9}, &unfenceBroker{2, anyEpoch, 9},
		&registerBroker{RegisterBrokerRequest{BrokerID: 3, IncarnationID: "j", CleanShutdown: true}, 9}, &unfenceBroker{3, anyEpoch, 9},
		&registerPartitions{RegisterPartitionsRequest{TopicID: idA, TopicName: "a", Diskless: true, Partitions: []RegisterPartition{{1, []int32{2, 3}}}}, 10},
		&registerPartitions{RegisterPartitionsRequest{TopicID: idC, TopicName: "c", Config: map[string]string{"remote.storage.enable": "true"},
			Partitions: []RegisterPartition{{0, []int32{2}}, {1, []int32{2, 3}}, {2, []int32{3}}}}, 10},
		&beginSwitch{BeginSwitchRequest{idC}}, &commitSeals{[]CommitSeal{{TopicID: idC, Partition: 1, BrokerID: 2, LeaderEpoch: 1, DisklessStartOffset: 5}}},
	} {
		require.NoError(t, s.Update(func(tx *store.WriteTx) error {
			_, err := Apply(tx, Entry{NowMs: 1_600_000_000_000, Command: cmd})
			return err
		}))
	}
	require.NoError(t, s.Close())
	image, err := os.ReadFile(path)
	require.NoError(t, err)
	return image
}

var idC = store.TopicID{0xc, 15: 3}

// switchCommands change what sampleState has of a switch.
func switchCommands() []Command {
	return []Command{
		&alterPartition{AlterPartitionRequest{TopicID: idC, Partition: 1, BrokerID: 2, LeaderEpoch: 1, PartitionEpoch: 2, NewISR: []ISRMember{{2, 1}}}},
		&commitPrefixes{[]CommitPrefix{{idC, 1, 2, 1, 0, 4}}},
		&commitSeals{[]CommitSeal{{TopicID: idC, Partition: 0, BrokerID: 2, LeaderEpoch: 1, DisklessStartOffset: 7, ProducerStates: []ProducerState{{ProducerID: 4}}}}},
		&overrideSwitch{OverrideSwitchRequest{TopicID: idC, Partition: 1, SealOffset: 3, LogEndOffset: 9}},
		&registerBroker{RegisterBrokerRequest{BrokerID: 4, IncarnationID: "k"}, 1},
	}
}
