package segmentlog_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// Readers beside a writer that appends, truncates and deletes see batches whose payload is
// their own, that follow each other, or say that the offset is not there.
func TestReadersBesideChanges(t *testing.T) {
	l := open(t, t.TempDir(), segmentlog.Config{SegmentBytes: 20 * frame})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					readSome(t, l)
				}
			}
		})
	}
	for round := range 30 {
		fill(t, l, int32(round), 15)
		if round%2 == 0 {
			require.NoError(t, l.Truncate(l.EndOffset()-5))
		}
		if round%3 == 0 {
			require.NoError(t, l.DeleteBelow(l.EndOffset()-25))
		}
		_, err := l.OpenSegment(l.LocalLogStartOffset())
		require.True(t, err == nil || errors.Is(err, switchover.ErrNotLocal))
	}
	close(done)
	readers.Wait()
	require.Equal(t, count(l.LocalLogStartOffset(), l.EndOffset()), offsets(t, l, l.LocalLogStartOffset()))
}

// readSome reads from the local log start as it is now, which may be gone the next moment.
func readSome(t *testing.T, l *segmentlog.Log) {
	next := l.LocalLogStartOffset()
	batches, err := l.Read(next, all, 1<<20)
	if err != nil && !errors.Is(err, switchover.ErrNotLocal) {
		assert.NoError(t, err)
	}
	for _, b := range batches {
		assert.Equal(t, next, b.BaseOffset)
		assert.Equal(t, payload(next), b.Payload)
		next++
	}
}

// Appends of several leaders' threads: each gets offsets of its own; after Seal returns,
// the end does not move any more.
func TestSealBesideAppends(t *testing.T) {
	l := open(t, t.TempDir(), small)
	var appenders sync.WaitGroup
	var mu sync.Mutex
	bases := map[int64]string{}
	for thread := range 4 {
		appenders.Go(func() {
			for i := 0; ; i++ {
				body := fmt.Sprint(thread, " ", i)
				base, err := l.Append(1, 1, []byte(body))
				if err != nil {
					assert.ErrorIs(t, err, switchover.ErrSealed)
					return
				}
				mu.Lock()
				bases[base] = body
				mu.Unlock()
			}
		})
	}
	require.Eventually(t, func() bool { return l.EndOffset() >= 50 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Seal())
	end := l.EndOffset()
	appenders.Wait()
	require.Equal(t, end, l.EndOffset())
	require.Len(t, bases, int(end))
	for base, body := range bases {
		batches, err := l.Read(base, all, 1)
		require.NoError(t, err)
		require.Equal(t, body, string(batches[0].Payload))
	}
}
