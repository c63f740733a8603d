package switchover_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// moving is a broker whose partition is being moved to an empty log.
func moving(t *testing.T, b *broker) *segmentlog.Log {
	future := openLog(t)
	require.NoError(t, b.StartMove(ref, future))
	return future
}

// copyAll steps until there is nothing to copy, and returns what became of the move then.
func (b *broker) copyAll() (switchover.MoveState, switchover.LocalLog) {
	for range 1000 {
		state, replaced, err := b.MoveStep(ref, 64)
		require.NoError(b.t, err)
		if state != switchover.MoveCopying {
			return state, replaced
		}
	}
	b.t.Fatal("copying does not end")
	return 0, nil
}

func TestMoveOfAClassicLog(t *testing.T) {
	b := filled(t, 25)
	b.Apply(classic())
	require.NoError(t, b.log.SetLogStart(3))
	future := moving(t, b)
	require.ErrorIs(t, b.StartMove(ref, future), switchover.ErrNoMove)
	state, replaced := b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
	require.NoError(t, replaced.(*segmentlog.Log).Remove())
	b.requireTier(24, switchover.TierLocal)
	s := b.status()
	require.Equal(t, []int64{3, 25, 25}, []int64{s.LogStart, s.HighWatermark, s.End})
	base, err := b.Append(ref, 1, []byte("local 25"))
	require.NoError(t, err)
	require.EqualValues(t, 25, base)
	require.Equal(t, b.log.Epochs()[0].Epoch, future.Epochs()[0].Epoch)

	_, _, err = b.MoveStep(ref, 64)
	require.ErrorIs(t, err, switchover.ErrNoMove)
}

func TestMoveOfASealedLogStaysSealed(t *testing.T) {
	b := filled(t, 20)
	b.Apply(pending())
	moving(t, b)
	state, _ := b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
	_, err := b.Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed)
}

func TestMoveAcrossTheFlag(t *testing.T) {
	b := filled(t, 20)
	b.Apply(waiting(20))
	future := moving(t, b)
	for future.EndOffset() < 20 {
		_, _, err := b.MoveStep(ref, 64)
		require.NoError(t, err)
	}
	b.remote.list(12)
	b.Apply(flagged(20))
	state, _ := b.copyAll()
	require.Equal(t, switchover.MoveWaiting, state, "the future log holds an uncovered record of the prefix")

	b.remote.list(19)
	state, _ = b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
	require.EqualValues(t, 20, future.LocalLogStartOffset())
	require.EqualValues(t, 20, b.status().LocalLogStart)
	b.requireTier(5, switchover.TierRemote)
}

// Where nothing is copied to remote storage the prefix stays, and so a move waits.
func TestMoveWaitsWhileNothingIsCopied(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.remote.SetCopying(false)
	b.Apply(flagged(20))
	future := moving(t, b)
	state, _ := b.copyAll()
	require.Equal(t, switchover.MoveWaiting, state)
	off := flagged(20)
	off.TopicConfig = nil
	b.remote.SetCopying(true)
	b.Apply(off)
	state, _ = b.copyAll()
	require.Equal(t, switchover.MoveWaiting, state, "remote storage is off for the topic")
	require.Zero(t, future.LocalLogStartOffset())

	b.Apply(flagged(20))
	state, _ = b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
	require.EqualValues(t, 20, future.LocalLogStartOffset())
}

// Records are deleted up to the inside of a batch that is not copied yet: it is copied whole,
// and the log start is what it was.
func TestMoveOfALogThatStartsInsideOfABatch(t *testing.T) {
	for name, copied := range map[string]int64{"what is before was not copied": 0, "the batch is next": 8} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			for o := int64(0); o < 20; o += 4 {
				four := batch(o, 3, "local")
				four.Records = 4
				require.NoError(t, b.log.AppendBatches([]switchover.Batch{four}))
			}
			require.NoError(t, b.log.SetHighWatermark(20))
			b.Apply(classic())
			future := moving(t, b)
			for future.EndOffset() < copied {
				_, _, err := b.MoveStep(ref, 1)
				require.NoError(t, err)
			}
			require.NoError(t, b.WithLog(ref, func(l switchover.LocalLog) error { return l.SetLogStart(10) }))
			state, _ := b.copyAll()
			require.Equal(t, switchover.MovePromoted, state)
			require.Equal(t, []int64{10, 10, 20}, []int64{future.LogStartOffset(), future.LocalLogStartOffset(), future.EndOffset()})
			got, err := b.consume(10)
			require.NoError(t, err)
			require.Equal(t, "local 8", string(got.Batches[0].Payload))
		})
	}
}

// The promotion has looked at what is covered; then the current log loses its prefix. What
// counts is what the future log holds.
func TestDeletionOfTheCurrentLogRacingPromotion(t *testing.T) {
	b := filled(t, 20)
	b.Apply(waiting(20))
	future := moving(t, b)
	for future.EndOffset() < 20 {
		_, _, err := b.MoveStep(ref, 64)
		require.NoError(t, err)
	}
	b.Apply(flagged(20))
	b.BeforePromotion(func() {
		b.remote.list(19)
		b.DeletePass(true)
		require.EqualValues(t, 20, b.log.LocalLogStartOffset())
	})
	state, _, err := b.MoveStep(ref, 64)
	require.NoError(t, err)
	require.Equal(t, switchover.MoveWaiting, state)
	require.EqualValues(t, 0, future.LocalLogStartOffset())
}

// The deletion was queued for one log, and finds another: it is that one's prefix that goes,
// and the old log is not touched any more.
func TestPromotionRacingTheDeletion(t *testing.T) {
	b := filled(t, 20)
	b.Apply(waiting(20))
	future := moving(t, b)
	for future.EndOffset() < 20 {
		_, _, err := b.MoveStep(ref, 64)
		require.NoError(t, err)
	}
	b.BeforeDeletion(func() {
		b.BeforeDeletion(nil)
		state, replaced := b.copyAll()
		require.Equal(t, switchover.MovePromoted, state)
		require.NoError(t, replaced.(*segmentlog.Log).Remove())
		b.remote.list(19)
		b.Apply(flagged(20))
	})
	b.Evicted(ref)
	b.DeletePass(false)
	b.DeletePass(false)
	require.Empty(t, b.failures.all())
	require.EqualValues(t, 20, future.LocalLogStartOffset())
}

func TestFutureLogRollsAtTheSeal(t *testing.T) {
	b := filled(t, 15)
	b.Apply(flagged(15))
	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(15, 0, "local"), batch(16, 0, "local")}))
	future := moving(t, b)
	state, _ := b.copyAll()
	require.Equal(t, switchover.MoveWaiting, state)
	require.Equal(t, []int64{0, 15}, bases(future))
	b.remote.list(14)
	state, _ = b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
	require.Equal(t, []int64{15}, bases(future))
	b.requireTier(16, switchover.TierLocal)
}

func bases(l *segmentlog.Log) (bases []int64) {
	for _, s := range l.Segments() {
		bases = append(bases, s.Base)
	}
	return bases
}

// A batch across the seal is copied too, and then waits for retention.
func TestMoveOfABatchAcrossTheSeal(t *testing.T) {
	b := newBroker(t)
	fill(t, b.log, 18)
	across := batch(18, 5, "local")
	across.Records, across.Kind = 4, switchover.Consolidated
	require.NoError(t, b.log.AppendBatches([]switchover.Batch{across}))
	b.remote.list(21)
	b.Apply(flagged(20))
	future := moving(t, b)
	state, _ := b.copyAll()
	require.Equal(t, switchover.MoveWaiting, state)
	require.EqualValues(t, 22, future.EndOffset())

	require.NoError(t, b.WithLog(ref, func(l switchover.LocalLog) error {
		require.NoError(t, l.Roll())
		require.NoError(t, l.SetHighWatermark(22))
		return l.DeleteBelow(22)
	}))
	require.NoError(t, future.SetHighWatermark(22))
	require.NoError(t, future.Roll())
	require.NoError(t, future.DeleteBelow(22))
	state, _ = b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
}

func TestMoveOfALogWithoutItsPrefix(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(flagged(20))
	b.DeletePass(false)
	future := moving(t, b)
	state, _ := b.copyAll()
	require.Equal(t, switchover.MovePromoted, state)
	require.Equal(t, []int64{0, 20, 20}, []int64{future.LogStartOffset(), future.LocalLogStartOffset(), future.EndOffset()})
}

func TestTruncationReachesTheFutureLog(t *testing.T) {
	b := filled(t, 20)
	b.Apply(ledBy(classic(), 2))
	future := moving(t, b)
	for future.EndOffset() < 20 {
		_, _, err := b.MoveStep(ref, 64)
		require.NoError(t, err)
	}
	require.NoError(t, b.TruncateFollower(ref, 4, 12))
	require.EqualValues(t, 12, future.EndOffset())
	require.NoError(t, b.AppendFetched(ref, 4, []switchover.Batch{batch(12, 4, "local")}, 13))
	cancelled, err := b.CancelMove(ref)
	require.NoError(t, err)
	require.Same(t, future, cancelled)
}
