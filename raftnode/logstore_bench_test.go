package raftnode

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// BenchmarkAppend is one durable append of some entries of 1 KiB, with a compaction
// now and then, as a node does it. cpu-us/op is processor time of the process.
func BenchmarkAppend(b *testing.B) {
	for _, kind := range []string{LogStoreBoltDB, LogStoreWAL} {
		for _, n := range []uint64{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/entries=%d", kind, n), func(b *testing.B) { benchmarkAppend(b, kind, n) })
		}
	}
}

func benchmarkAppend(b *testing.B, kind string, n uint64) {
	snapshots := &snapshotsAt{}
	s, err := openLog(filepath.Join(b.TempDir(), logFile), kind, snapshots, func(string, time.Duration) {})
	require.NoError(b, err)
	defer s.Close()
	data, entries := make([]byte, 1024), make([]*raft.Log, n)
	next, began := uint64(1), processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		for i := range entries {
			entries[i] = &raft.Log{Index: next, Term: 1, Data: data, AppendedAt: time.Unix(1, 0)}
			next++
		}
		if err := s.StoreLogs(entries); err != nil {
			b.Fatal(err)
		}
		if snapshots.index+40_000 < next {
			snapshots.index = next - 20_000
			if err := s.DeleteRange(1, snapshots.index); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64((processorTime(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
}

func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
