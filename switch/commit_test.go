package switchover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

func TestLeaderCommitsTheSealWhenAllIsCommitted(t *testing.T) {
	b := filled(t, 15)
	require.NoError(t, b.log.SetLogStart(2))
	require.NoError(t, b.log.AppendBatches([]switchover.Batch{batch(15, 3, "local")}))
	b.Apply(pending())
	b.CommitPass()
	require.Empty(t, b.plane.seals, "followers lack a record")

	for _, follower := range []int32{2, 3} {
		_, err := b.fetch(follower, 16, 5)
		require.NoError(t, err)
	}
	b.CommitPass()
	require.Equal(t, []ops.CommitSeal{{
		TopicID: ref.TopicID, Partition: 0, BrokerID: me, LeaderEpoch: 5, LogStartOffset: 2, DisklessStartOffset: 16,
		ProducerStates: []ops.ProducerState{{ProducerID: 9, LastSequence: 4, AssignedOffset: 2}},
	}}, b.plane.seals)
	b.clock.Advance(time.Hour)
	b.CommitPass()
	require.Len(t, b.plane.seals, 1, "it is committed")
}

func TestFollowerCommitsNothing(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	for _, reg := range []switchover.Registration{pending(), waiting(20)} {
		b.Apply(ledBy(reg, 2))
		b.CommitPass()
	}
	require.Empty(t, b.plane.seals)
	require.Empty(t, b.plane.flags)
}

// retried is how often something was asked for, over the tries of a minute: by backoff, not
// at each look.
func retried(b *broker, asked func() int) int {
	for range 600 {
		b.CommitPass()
		b.clock.Advance(100 * time.Millisecond)
	}
	return asked()
}

func TestSealAndFlagAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		reg   switchover.Registration
		asked func(*broker) int
	}{
		"seal": {pending(), func(b *broker) int { return len(b.plane.seals) }},
		"flag": {waiting(20), func(b *broker) int { return len(b.plane.flags) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := filled(t, 20)
			b.remote.list(19)
			b.Apply(c.reg)
			asked := func() int { return c.asked(b) }
			b.plane.answer = ops.NotController
			// After 0.1, 0.2, 0.4 s and so on, then every 10 s.
			require.Equal(t, 12, retried(b, asked))

			b.plane.answer, b.plane.err = "", errors.New("outcome unknown")
			b.clock.Advance(10 * time.Second)
			b.CommitPass()
			require.Equal(t, 13, asked())

			b.plane.err = nil
			b.clock.Advance(10 * time.Second)
			b.CommitPass()
			require.Equal(t, 14, asked())
			require.Equal(t, 14, retried(b, asked), "it is committed")
		})
	}
}

// A seal without its producers would forget them for good.
func TestNoSealWithoutItsProducers(t *testing.T) {
	b := filled(t, 20)
	b.producers.unreadable[ref] = true
	b.Apply(pending())
	b.CommitPass()
	require.Empty(t, b.plane.seals)

	b.producers.unreadable[ref] = false
	b.clock.Advance(10 * time.Second)
	b.CommitPass()
	require.Len(t, b.plane.seals, 1)
}

// pendingToo is one more partition of the topic that this broker leads, and can be sealed.
func (b *broker) pendingToo(partition int32) ops.LogRef {
	reg := pending()
	reg.Partition = partition
	log := openLog(b.t)
	fill(b.t, log, 20)
	require.NoError(b.t, b.Open(reg.Ref(), log))
	b.Apply(reg)
	return reg.Ref()
}

func TestUnreadableProducersHoldUpTheirSealAlone(t *testing.T) {
	b := filled(t, 20)
	b.Apply(pending())
	unreadable := b.pendingToo(1)
	b.producers.unreadable[unreadable] = true
	b.CommitPass()
	require.Len(t, b.plane.seals, 1)
	require.EqualValues(t, 0, b.plane.seals[0].Partition)

	b.producers.unreadable[unreadable] = false
	b.clock.Advance(10 * time.Second)
	b.CommitPass()
	require.Len(t, b.plane.seals, 2)
	require.EqualValues(t, 1, b.plane.seals[1].Partition)
}

// Producers are most of a seal, and a request has a limit.
func TestSealsOfManyProducersAreAskedForInSeveralCalls(t *testing.T) {
	b := filled(t, 20)
	b.producers.remembered = 4_000
	b.Apply(pending())
	for p := range int32(4) {
		b.pendingToo(1 + p)
	}
	b.CommitPass()
	require.Len(t, b.plane.seals, 5)
	require.Equal(t, 3, b.plane.calls)

	b.producers.remembered = 20_000
	for p := range int32(2) {
		b.pendingToo(5 + p)
	}
	b.CommitPass()
	require.Len(t, b.plane.seals, 7)
	require.Equal(t, 5, b.plane.calls, "each alone")
}

func TestFencedEpochEndsTheAttempt(t *testing.T) {
	b := filled(t, 20)
	b.Apply(pending())
	b.plane.answer = ops.FencedLeaderEpoch
	require.Equal(t, 1, retried(b, func() int { return len(b.plane.seals) }))

	b.plane.answer = ops.None
	again := pending()
	again.LeaderEpoch, again.PartitionEpoch = 8, 14
	b.Apply(again)
	b.CommitPass()
	require.Len(t, b.plane.seals, 2)
	require.EqualValues(t, 8, b.plane.seals[1].LeaderEpoch)
}

func TestFlagNeedsTheWholePrefixInRemoteStorage(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(18)
	b.Apply(waiting(20))
	b.CommitPass()
	require.Empty(t, b.plane.flags)
	b.remote.list(19)
	b.CommitPass()
	require.Equal(t, []ops.CommitPrefix{{
		TopicID: ref.TopicID, BrokerID: me, LeaderEpoch: 5, LogStartOffset: 0, HighestRemoteOffset: 19,
	}}, b.plane.flags)
}

func TestFlagOfAPrefixThatExpired(t *testing.T) {
	b := filled(t, 20)
	b.Apply(waiting(20))
	require.NoError(t, b.log.SetLogStart(20))
	b.CommitPass()
	require.Equal(t, []ops.CommitPrefix{{
		TopicID: ref.TopicID, BrokerID: me, LeaderEpoch: 5, LogStartOffset: 20, HighestRemoteOffset: -1,
	}}, b.plane.flags)
}

func TestOfflineLeaderCommitsNoFlag(t *testing.T) {
	b := filled(t, 15)
	b.remote.list(19)
	b.Apply(waiting(20))
	b.CommitPass()
	require.Empty(t, b.plane.flags)
}

func TestCommitsRunOnTheirOwn(t *testing.T) {
	b := filled(t, 20)
	b.plane.answer = ops.NotController
	b.Start()
	b.Apply(pending())
	eventually(t, "the seal is tried again", func() bool {
		b.clock.Advance(10 * time.Second)
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		return len(b.plane.seals) >= 3
	})
}
