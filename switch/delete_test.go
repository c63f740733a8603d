package switchover_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

func TestFlagDeletesThePrefix(t *testing.T) {
	b := filled(t, 15)
	b.Apply(waiting(15))
	b.DeletePass(true)
	require.Zero(t, b.status().LocalLogStart, "only the flag lets it go")

	b.remote.list(14)
	b.Apply(flagged(15))
	require.True(t, b.status().DeletionQueued)
	epochs := b.log.Epochs()
	b.DeletePass(false)
	require.Equal(t, []int64{0, 15, 15}, []int64{b.status().LogStart, b.status().LocalLogStart, b.status().End})
	require.Equal(t, epochs, b.log.Epochs())
	require.False(t, b.status().DeletionQueued)
	files, err := filepath.Glob(filepath.Join(b.log.Dir(), "*.log"))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// A follower that is short of the seal has the end of what it has in the active segment.
func TestDeletionRollsFirst(t *testing.T) {
	b := filled(t, 15)
	b.remote.list(19)
	b.Apply(ledBy(flagged(20), 2))
	require.EqualValues(t, 10, b.log.Segments()[1].Base)
	b.DeletePass(false)
	require.EqualValues(t, 15, b.status().LocalLogStart)
}

// Records are consolidated before the prefix is covered here, in a segment of their own.
func TestConsolidatedRecordsDoNotKeepThePrefix(t *testing.T) {
	b := filled(t, 15)
	b.Apply(ledBy(flagged(15), 2))
	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(15, 0, "diskless")}))
	b.DeletePass(false)
	require.Zero(t, b.status().LocalLogStart)

	b.remote.list(14)
	b.DeletePass(true)
	require.EqualValues(t, 15, b.status().LocalLogStart)
}

func TestUncoveredSegmentsAreKeptAndTriedAgain(t *testing.T) {
	b := filled(t, 30)
	b.remote.list(18)
	b.Apply(flagged(30))
	b.DeletePass(false)
	require.EqualValues(t, 10, b.status().LocalLogStart, "the second segment is not covered whole")
	require.True(t, b.status().DeletionQueued)

	b.remote.list(29)
	b.DeletePass(false)
	require.EqualValues(t, 10, b.status().LocalLogStart, "the next try is a second later")
	b.DeletePass(true)
	require.EqualValues(t, 30, b.status().LocalLogStart)
	require.False(t, b.status().DeletionQueued)
}

// Remote storage has classic segments and consolidated ones; what is above the seal stays.
func TestOnlyThePrefixIsDeleted(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(29)
	b.Apply(flagged(20))
	require.NoError(t, b.log.Roll())
	for o := int64(20); o < 30; o++ {
		require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(o, 0, "local")}))
	}
	require.NoError(t, b.log.Roll())
	b.DeletePass(false)
	require.EqualValues(t, 20, b.status().LocalLogStart)
}

func TestDeletionRunsOnItsOwn(t *testing.T) {
	b := filled(t, 20)
	b.Start()
	b.Apply(flagged(20))
	eventually(t, "the first try has found nothing covered", func() bool { return b.status().DeletionQueued })
	b.remote.list(19)
	eventually(t, "the prefix is deleted", func() bool {
		b.clock.Advance(time.Second)
		return b.status().LocalLogStart == 20
	})
}

func TestEvictionQueuesTheDeletionAgain(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(ledBy(flagged(20), 2))
	b.DeletePass(false)
	require.False(t, b.status().DeletionQueued)
	for range 2 {
		b.Evicted(ref)
		require.True(t, b.status().DeletionQueued)
	}
	b.DeletePass(false)
	require.False(t, b.status().DeletionQueued)
	require.EqualValues(t, 20, b.status().LocalLogStart)
}

func TestPrefixIsKeptWhileNothingIsCopied(t *testing.T) {
	b := newBroker(t)
	var lines bytes.Buffer
	gate := switchover.New(switchover.DefaultConfig(me), switchover.Deps{
		Remote: b.remote, Diskless: diskless{}, Fetchers: b.fetchers, Failures: b.failures, Producers: b.producers,
		Brokers: b.plane, ControlPlane: b.plane, Clock: clockwork.NewFakeClock(), Logger: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	defer gate.Close()
	log := openLog(t)
	fill(t, log, 20)
	require.NoError(t, gate.Open(ref, log))
	b.remote.list(19)
	b.remote.SetCopying(false)
	gate.Apply(flagged(20))
	for range 3 {
		gate.DeletePass(true)
	}
	require.Zero(t, log.LocalLogStartOffset())
	require.Equal(t, 1, strings.Count(lines.String(), "prefix is kept"))

	b.remote.SetCopying(true)
	gate.DeletePass(true)
	require.EqualValues(t, 20, log.LocalLogStartOffset())
}

// A segment that an older release let grow over the seal cannot be deleted: it is left to
// retention, and not tried for ever.
func TestSegmentAcrossTheSealIsLeft(t *testing.T) {
	b := filled(t, 15)
	for o := int64(15); o < 25; o++ {
		next := batch(o, 3, "local")
		if o >= 20 {
			next.LeaderEpoch, next.Kind = 5, switchover.Consolidated
		}
		require.NoError(t, b.log.AppendBatches([]switchover.Batch{next}))
	}
	b.remote.list(24)
	b.Apply(ledBy(flagged(20), 2))
	require.EqualValues(t, 25, b.status().End)
	b.DeletePass(false)
	require.EqualValues(t, 10, b.status().LocalLogStart)
	require.False(t, b.status().DeletionQueued)
	b.requireTier(12, switchover.TierRemote)
	b.requireTier(22, switchover.TierLocal)
}

// The replicas' caches differ where their records do not: here the local one knows another
// epoch than remote storage, and has lost where it began.
func TestDivergentEpochsDoNotStrandThePrefix(t *testing.T) {
	b := newBroker(t)
	for o := range int64(20) {
		require.NoError(t, b.log.AppendBatches([]switchover.Batch{batch(o, 2, "local")}))
	}
	require.NoError(t, b.log.SetHighWatermark(20))
	require.NoError(t, b.log.SetLogStart(4))
	b.remote.list(19)
	b.Apply(flagged(20))
	require.EqualValues(t, 20, b.status().End)
	b.DeletePass(false)
	require.EqualValues(t, 20, b.status().LocalLogStart)
	require.False(t, b.status().DeletionQueued)
	b.requireTier(4, switchover.TierRemote)
	b.requireTier(19, switchover.TierRemote)
}

func TestStorageErrorDuringDeletion(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(flagged(20))
	// What a broker does about it takes the locks of the state change.
	b.failures.handle = func() { b.Apply(ledBy(flagged(20), 2)) }
	require.NoError(t, os.RemoveAll(b.log.Dir()))
	b.DeletePass(false)
	require.Len(t, b.failures.all(), 1)
	require.ErrorIs(t, b.failures.all()[0], segmentlog.ErrStorage)
	require.Empty(t, b.status().Offline, "that is for the handler to decide")
	_, err := b.consume(3)
	require.NoError(t, err, "from remote storage, as before")
}

// The local log start moves before the files vanish. A read that meets that is served by
// remote storage, and never by what the log holds next.
func TestReadRacingTheDeletion(t *testing.T) {
	b := newBroker(t)
	_, _, err := b.Remove(ref)
	require.NoError(t, err)
	began, proceed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(proceed) })
	config := segmentlog.DefaultConfig()
	config.BeforeUnlink = func() {
		close(began)
		<-proceed
	}
	log := openLogWith(t, config)
	t.Cleanup(release)
	fill(t, log, 20)
	require.NoError(t, b.Open(ref, log))
	b.Apply(waiting(20))
	b.remote.list(19)

	var once bool
	b.BeforeRead(func() { // a read of phase 1 is about to touch the log
		if once {
			return
		}
		once = true
		go func() {
			b.Apply(flagged(20))
			b.DeletePass(false)
		}()
		eventually(t, "the deletion waits, or is under way", func() bool { return b.Locked(ref) || isClosed(began) })
		require.False(t, isClosed(began), "segments are deleted during a read")
	})
	b.requireTier(5, switchover.TierLocal)

	<-began
	require.EqualValues(t, 20, log.LocalLogStartOffset())
	read := make(chan parked, 1)
	go func() {
		var p parked
		p.result, p.err = b.consume(5)
		read <- p
	}()
	release()
	got := <-read
	require.NoError(t, got.err)
	require.Equal(t, "remote 5", string(got.result.Batches[0].Payload))
}
