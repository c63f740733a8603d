package ops

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

const (
	benchBatches = 10 // of a commit
	benchEntries = 64 // of a transaction
)

// benchStore has one topic with as many partitions.
func benchStore(b *testing.B, partitions int) *store.Store {
	s, err := store.Open(filepath.Join(b.TempDir(), "state.db"), store.Options{Sync: store.SyncNever})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	create := &createTopic{topic: CreateTopic{TopicID: idA, TopicName: "a", NumPartitions: int32(partitions)}, maxPartitions: int64(partitions)}
	require.NoError(b, s.Update(func(tx *store.WriteTx) error {
		_, err := Apply(tx, Entry{NowMs: 1_700_000_000_000, Command: create})
		return err
	}))
	return s
}

// benchCommit is commit number n: ten batches of ten partitions, of a producer each.
func benchCommit(n, partitions int) *commitFile {
	c := &commitFile{coalesce: true, replayRetentionMs: 86_400_000, request: CommitFileRequest{
		ObjectKey: fmt.Sprintf("wal/%032x", n), Format: 1, UploaderBrokerID: 3, FileSize: 1 << 20, Batches: make([]CommitBatch, benchBatches)}}
	for i := range c.request.Batches {
		seq := int32(n * benchBatches / partitions)
		c.request.Batches[i] = CommitBatch{
			TopicID: idA, Partition: int32((n*benchBatches + i) % partitions), Magic: 2, ByteOffset: int64(i) << 16, ByteSize: 1 << 16, LastOffset: 99,
			BatchMaxTimestamp: 1_700_000_000_000, ProducerID: 1000, BaseSequence: seq * 100, LastSequence: seq*100 + 99}
	}
	return c
}

func benchEntry(b *testing.B, n, partitions int) []byte {
	data, err := Encode(benchCommit(n, partitions), 1_700_000_000_000+int64(n))
	require.NoError(b, err)
	return data
}

func applyEntries(s *store.Store, entries [][]byte) error {
	return s.Update(func(tx *store.WriteTx) error {
		for _, data := range entries {
			e, err := Decode(data)
			if err != nil {
				return err
			}
			result, err := Apply(tx, e)
			if err != nil {
				return err
			}
			for _, a := range result.(*CommitFileResponse).Batches {
				if a.Error != None {
					return fmt.Errorf("batch of %s: %s", e.Command.Op(), a.Error)
				}
			}
		}
		return nil
	})
}

// BenchmarkApplyCommit decodes and applies commits of ten batches, 64 in a
// transaction that is not synced; an iteration is one commit.
func BenchmarkApplyCommit(b *testing.B) {
	for _, partitions := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s := benchStore(b, partitions)
			b.ReportAllocs()
			entries := make([][]byte, 0, benchEntries)
			for n := 0; n < b.N; {
				b.StopTimer()
				entries = entries[:0]
				for ; len(entries) < benchEntries && n < b.N; n++ {
					entries = append(entries, benchEntry(b, n, partitions))
				}
				b.StartTimer()
				require.NoError(b, applyEntries(s, entries))
			}
		})
	}
}

// BenchmarkReadBeforeCommit is what a new commit costs before it is logged.
func BenchmarkReadBeforeCommit(b *testing.B) {
	s := benchStore(b, 100)
	for n := range 100 {
		require.NoError(b, applyEntries(s, [][]byte{benchEntry(b, n, 100)}))
	}
	steps := commitSteps{command: *benchCommit(100, 100)}
	b.ReportAllocs()
	for b.Loop() {
		cmd, err := nextCommand(&steps, s.View, func() int64 { return 1_700_000_000_000 })
		require.NoError(b, err)
		require.NotNil(b, cmd)
	}
}

func BenchmarkEncodeCommit(b *testing.B) {
	c := benchCommit(1, 100)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Encode(c, 1_700_000_000_000)
		require.NoError(b, err)
	}
}

func BenchmarkDecodeCommit(b *testing.B) {
	data := benchEntry(b, 1, 100)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Decode(data)
		require.NoError(b, err)
	}
}

// BenchmarkFindBatches10x10 reads ten batches of each of ten partitions, far
// behind the end of logs of a thousand.
func BenchmarkFindBatches10x10(b *testing.B) {
	const partitions = 10
	s := benchStore(b, partitions)
	for n := range 1000 {
		require.NoError(b, applyEntries(s, [][]byte{benchEntry(b, n, partitions)}))
	}
	r := &FindBatchesRequest{FetchMaxBytes: 1 << 30, MaxBatchesPerPartition: 10}
	for p := range int32(partitions) {
		r.Requests = append(r.Requests, FindBatches{TopicID: idA, Partition: p, StartingOffset: 30_050, MaxPartitionFetchBytes: 1 << 30})
	}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, s.View(func(tx *store.ReadTx) error {
			answer, err := r.Query(tx, DefaultLimits())
			require.Len(b, answer.(*FindBatchesResponse).Responses[9].Batches, 10)
			return err
		}))
	}
}
