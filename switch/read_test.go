package switchover_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

func TestEachOffsetIsReadWhereItIs(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(classic())
	b.requireTier(19, switchover.TierLocal)
	b.Apply(pending())
	b.requireTier(19, switchover.TierLocal)
	b.Apply(waiting(20))
	b.requireTier(19, switchover.TierLocal)
	b.requireTier(20, switchover.TierDiskless)
	b.Apply(flagged(20))
	b.requireTier(19, switchover.TierRemote)
	b.requireTier(20, switchover.TierDiskless)
}

func TestOnlyTheISRServesAPrefixThatIsOnlyLocal(t *testing.T) {
	b := filled(t, 20)
	for _, reg := range []switchover.Registration{classic(), pending(), waiting(20)} {
		b.Apply(withISR(ledBy(reg, 2), 2, 3))
		_, err := b.consume(5)
		require.ErrorIs(t, err, switchover.ErrNotLeaderOrFollower)
		b.Apply(ledBy(reg, 2))
		b.requireTier(5, switchover.TierLocal)
	}
}

func TestNegativeOffsetIsOutOfRange(t *testing.T) {
	born := classic()
	born.State = ops.StateBornDiskless
	for _, reg := range []switchover.Registration{classic(), pending(), waiting(20), flagged(20), born} {
		b := filled(t, 20)
		b.Apply(reg)
		_, err := b.consume(-1)
		require.ErrorIs(t, err, switchover.ErrOffsetOutOfRange, reg.State)
	}
}

func TestHighWatermarkOfRemoteRecordsAboveTheSeal(t *testing.T) {
	b := filled(t, 20)
	b.remote.kind = switchover.Consolidated
	b.remote.list(24)
	b.Apply(flagged(20))
	got, err := b.consume(22)
	require.NoError(t, err)
	require.Equal(t, switchover.TierRemote, got.Tier)
	require.EqualValues(t, 25, got.HighWatermark)
}

// An operator has sealed the partition below what remote storage holds: of what is above, the
// records are those of diskless storage.
func TestClassicRecordsInRemoteStorageAboveTheSealAreNotRead(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	for _, reg := range []switchover.Registration{waiting(15), flagged(15)} {
		b.Apply(reg)
		b.requireTier(15, switchover.TierDiskless)
	}
	b.requireTier(14, switchover.TierRemote)
}

func TestUncoveredPrefixIsServedByNobody(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(12)
	b.Apply(flagged(20))
	b.DeletePass(false)
	b.requireTier(12, switchover.TierRemote)
	_, err := b.consume(13)
	require.ErrorIs(t, err, switchover.ErrNotLeaderOrFollower)
}

func TestRefusedReadQueuesTheDeletionAgain(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(flagged(20))
	b.DeletePass(false)
	require.False(t, b.status().DeletionQueued)
	b.requireTier(3, switchover.TierRemote)
	require.False(t, b.status().DeletionQueued)

	_, err := b.fetch(2, 3, 6)
	require.ErrorIs(t, err, switchover.ErrNotLeaderOrFollower)
	require.True(t, b.status().DeletionQueued)
}

func TestFollowerAtTheSealIsAnsweredEmpty(t *testing.T) {
	b := filled(t, 20)
	b.Apply(waiting(20))
	got, err := b.fetch(2, 20, 5)
	require.NoError(t, err)
	require.Empty(t, got.Batches)
	require.EqualValues(t, 20, got.HighWatermark)
	_, err = b.fetch(2, 21, 5)
	require.ErrorIs(t, err, switchover.ErrOffsetOutOfRange)
	_, err = b.fetch(2, 20, 4)
	require.ErrorIs(t, err, switchover.ErrFencedLeaderEpoch)

	// Also of a leader that is still being rebuilt: a follower must not truncate to its end.
	short := filled(t, 15)
	short.Apply(flagged(20))
	got, err = short.fetch(2, 20, 6)
	require.NoError(t, err)
	require.Empty(t, got.Batches)
	require.EqualValues(t, 20, got.HighWatermark)
}

func TestConsumerReadStopsAtTheSeal(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(24)
	b.Apply(flagged(20))
	read := switchover.ReadRequest{Ref: ref, Offset: 18, MaxBytes: 1 << 20, Replica: switchover.Consumer}
	got, err := b.Read(context.Background(), read)
	require.NoError(t, err)
	require.Len(t, got.Batches, 2)
	require.EqualValues(t, 20, got.HighWatermark)

	read.MaxBytes = 0
	got, err = b.Read(context.Background(), read)
	require.NoError(t, err)
	require.Empty(t, got.Batches, "the budget is used up")

	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(20, 0, "local"), batch(21, 0, "local")}))
	read.Offset, read.MaxBytes = 20, 1<<20
	got, err = b.Read(context.Background(), read)
	require.NoError(t, err)
	require.Equal(t, switchover.TierLocal, got.Tier)
	require.Len(t, got.Batches, 2)
}

// park begins a read of local records that waits for more than there is.
func (b *broker) park(offset int64) <-chan parked {
	done, waits := make(chan parked, 1), make(chan struct{})
	b.WhenParked(sync.OnceFunc(func() { close(waits) }))
	go func() {
		var p parked
		p.result, p.err = b.Read(context.Background(), switchover.ReadRequest{
			Ref: ref, Offset: offset, MaxBytes: 1 << 20, MinBytes: 1 << 20, MaxWait: time.Minute, Replica: switchover.Consumer,
		})
		done <- p
	}()
	<-waits
	return done
}

type parked struct {
	result switchover.ReadResult
	err    error
}

func TestParkedFetchAcrossTheFlag(t *testing.T) {
	for name, wake := range map[string]func(*broker){
		"woken by the flag": func(b *broker) { b.Apply(flagged(20)) },
		"flag as its time is over": func(b *broker) {
			b.WhenWoken(func() { b.Apply(flagged(20)) })
			b.clock.Advance(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			covered := filled(t, 20)
			covered.Apply(waiting(20))
			done := covered.park(15)
			covered.remote.list(19)
			wake(covered)
			got := <-done
			require.NoError(t, got.err)
			require.Equal(t, switchover.TierRemote, got.result.Tier)

			uncovered := filled(t, 20)
			uncovered.Apply(waiting(20))
			done = uncovered.park(15)
			wake(uncovered)
			got = <-done
			require.ErrorIs(t, got.err, switchover.ErrNotLeaderOrFollower)
			require.True(t, uncovered.status().DeletionQueued)
		})
	}
}

func TestParkedFetchReturnsWhatIsThereInTime(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(classic(), me))
	done := b.park(18)
	b.clock.Advance(time.Minute)
	require.Len(t, (<-done).result.Batches, 2)

	done = b.park(20)
	_, err := b.Append(ref, 1<<10, make([]byte, 1<<20))
	require.NoError(t, err)
	require.Len(t, (<-done).result.Batches, 1)

	done = b.park(20 + 1<<10)
	b.Close()
	require.ErrorIs(t, (<-done).err, switchover.ErrClosed)
}

// A read that began in phase 1 holds off the flag until it has read and checked.
func TestFlagWaitsForAReadUnderWay(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(waiting(20))
	applied := make(chan struct{})
	b.BeforeRead(func() {
		b.BeforeRead(nil)
		go func() {
			defer close(applied)
			b.Apply(flagged(20))
		}()
		eventually(t, "the flag is applied, or waits", func() bool { return b.Locked(ref) || isClosed(applied) })
		require.False(t, isClosed(applied), "the flag was applied during a read")
	})
	b.requireTier(5, switchover.TierLocal)
	<-applied
	b.requireTier(5, switchover.TierRemote)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// A batch that has records on both sides of the seal is not returned for those above it either.
func TestBatchAcrossTheSealIsNotReadLocally(t *testing.T) {
	b := newBroker(t)
	fill(t, b.log, 18)
	across := batch(18, 5, "local")
	across.Records, across.Kind = 4, switchover.Consolidated
	require.NoError(t, b.log.AppendBatches([]switchover.Batch{across}))
	b.Apply(flagged(20))
	require.EqualValues(t, 22, b.status().End)
	b.requireTier(20, switchover.TierDiskless)
}
