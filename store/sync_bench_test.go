package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSyncPoints: one operation is a transaction of 16 commits on a state of
// 200,000 batches, with a sync point beside them each so many transactions; 0 syncs
// with every transaction instead. What the pinned pages cost shows in the size of
// the file, what syncing costs in the slowest transactions.
func BenchmarkSyncPoints(b *testing.B) {
	for _, each := range []int{0, 20, 50, 100, 200, 500, 1000} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			mode := SyncInterval
			if each == 0 {
				mode = SyncAlways
			}
			l := newLoadWith(b, 1_000, SyncNever)
			l.fill(b, 200_000)
			require.NoError(b, l.s.Close())
			s, err := Open(l.s.Path(), Options{Sync: mode})
			require.NoError(b, err)
			defer s.Close()
			l.s = s
			before, err := s.Stats()
			require.NoError(b, err)
			b.ResetTimer()
			times := l.timed(b, each)
			b.StopTimer()
			slices.Sort(times)
			after, err := s.Stats()
			require.NoError(b, err)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(times[len(times)-1].Microseconds()), "max-us")
			b.ReportMetric(float64(before.FileBytes>>20), "MiB-before")
			b.ReportMetric(float64(after.FileBytes>>20), "MiB-after")
			b.ReportMetric(float64((after.FileBytes-after.FreePages*after.PageBytes)>>20), "MiB-used")
		})
	}
}

// timed makes b.N transactions and says how long each took.
func (l *load) timed(b *testing.B, each int) (times []time.Duration) {
	due, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for range due {
			p, err := l.s.Point(nil)
			require.NoError(b, err)
			require.NoError(b, p.Commit(nil))
		}
	}()
	for range b.N {
		start := time.Now()
		update(b, l.s, func(tx *WriteTx) {
			for range 16 {
				require.NoError(b, l.commit(tx))
			}
		})
		times = append(times, time.Since(start))
		if each > 0 && l.s.Unrecorded() >= uint64(each) {
			select {
			case due <- struct{}{}:
			default:
			}
		}
	}
	close(due)
	<-done
	return times
}
