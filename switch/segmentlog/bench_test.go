package segmentlog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/switch/segmentlog"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			l := open(b, b.TempDir(), segmentlog.DefaultConfig())
			body := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, err := l.Append(1, 10, body)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkRead reads single batches at offsets all over a log of 10,000, and runs of them.
func BenchmarkRead(b *testing.B) {
	const batches, records = 10_000, 10
	l := open(b, b.TempDir(), segmentlog.Config{SegmentBytes: 4 << 20})
	body := make([]byte, 1000)
	for range batches {
		_, err := l.Append(1, records, body)
		require.NoError(b, err)
	}
	for _, budget := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("%d bytes", budget), func(b *testing.B) {
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				got, err := l.Read(n*7919%batches*records, all, budget)
				require.NoError(b, err)
				b.SetBytes(int64(len(got) * len(body)))
				n++
			}
		})
	}
}
