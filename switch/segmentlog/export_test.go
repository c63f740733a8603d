package segmentlog

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
)

// Die closes the log's files as a process does that is killed: nothing is flushed.
func (l *Log) Die() {
	l.write.Lock()
	defer l.write.Unlock()
	_ = l.closeFiles()
}

// SegmentName is the name of a segment's file.
func SegmentName(base int64) string { return segmentName(base) }

// BeginRead looks where offset is, and leaves the rest of that read to the function it returns.
func (l *Log) BeginRead(t testing.TB, offset int64) func() ([]switchover.Batch, error) {
	t.Helper()
	p, err := l.find(offset)
	require.NoError(t, err)
	require.NotNil(t, p.seg)
	return func() ([]switchover.Batch, error) { return l.finishRead(p, offset, math.MaxInt64, 1<<20) }
}
