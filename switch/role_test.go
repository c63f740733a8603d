package switchover_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

func TestPendingSealsBeforeTheRole(t *testing.T) {
	b := filled(t, 15)
	b.Apply(classic())
	base, err := b.Append(ref, 1, []byte("local 15"))
	require.NoError(t, err)
	require.EqualValues(t, 15, base)

	b.Apply(pending())
	_, err = b.Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed)
	segments := b.log.Segments()
	require.Equal(t, switchover.Segment{Base: 16, End: 16}, segments[len(segments)-1], "the tail of an idle topic can be tiered")
}

func TestPendingFollowerIsSealedAndKeepsFetching(t *testing.T) {
	b := filled(t, 15)
	b.Apply(ledBy(pending(), 2))
	_, err := b.log.Append(5, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed)
	classic, _ := b.fetchers.running()
	require.Equal(t, "from 2 in epoch 5", classic)
	require.NoError(t, b.AppendFetched(ref, 5, []switchover.Batch{batch(15, 3, "local")}, 16))
	require.EqualValues(t, 16, b.status().HighWatermark)
}

func TestGatingIsPerPartition(t *testing.T) {
	b := filled(t, 20)
	other := ops.LogRef{TopicID: ref.TopicID, Partition: 1}
	log := openLog(t)
	fill(t, log, 20)
	require.NoError(t, b.Open(other, log))
	unswitched := classic()
	unswitched.Partition = 1
	b.Apply(unswitched)
	b.remote.list(19)
	b.Apply(flagged(20))
	b.DeletePass(false)

	require.EqualValues(t, 20, b.log.LocalLogStartOffset())
	require.Zero(t, log.LocalLogStartOffset())
	base, err := b.Append(other, 1, []byte("local 20"))
	require.NoError(t, err)
	require.EqualValues(t, 20, base)
}

func TestLeaderBelowTheSeal(t *testing.T) {
	noRemote := flagged(20)
	noRemote.TopicConfig = nil
	for name, c := range map[string]struct {
		reg           switchover.Registration
		offline       string
		consolidation string
	}{
		"prefix only on local disks": {waiting(20), "move leadership to a replica that holds the prefix", ""},
		"prefix in remote storage":   {flagged(20), "", "rebuilds"},
		"remote storage is off":      {noRemote, "cannot rebuild", ""},
		"at the seal":                {waiting(15), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := filled(t, 15)
			b.Apply(c.reg)
			_, consolidation := b.fetchers.running()
			require.Equal(t, c.consolidation, consolidation)
			if c.offline == "" {
				require.Empty(t, b.status().Offline)
				return
			}
			require.Contains(t, b.status().Offline, c.offline)
			_, err := b.consume(3)
			require.ErrorIs(t, err, switchover.ErrOffline)
			require.ErrorIs(t, err, switchover.ErrNotLeaderOrFollower)
			b.Apply(ledBy(c.reg, 2))
			require.Empty(t, b.status().Offline, "leadership has moved")
		})
	}
}

func TestLeaderRaisesTheHighWatermarkToTheSeal(t *testing.T) {
	b := newBroker(t)
	require.NoError(t, b.log.AppendBatches([]switchover.Batch{batch(0, 3, "local"), batch(1, 3, "local")}))
	b.Apply(ledBy(waiting(2), 2))
	require.Zero(t, b.status().HighWatermark, "a follower is told by its leader")
	b.Apply(waiting(2))
	require.EqualValues(t, 2, b.status().HighWatermark)
	b.requireTier(1, switchover.TierLocal)
}

// The new leader was a follower when the switch began: its active segment holds the tail.
func TestLeaderOfASealedPartitionRolls(t *testing.T) {
	b := filled(t, 15)
	b.Apply(ledBy(waiting(15), 2))
	require.EqualValues(t, 10, b.log.Segments()[1].Base)
	b.Apply(waiting(15))
	require.EqualValues(t, 15, b.log.Segments()[2].Base)
}

func TestRecordsAboveTheSealAreCut(t *testing.T) {
	b := filled(t, 15)
	b.Apply(waiting(12))
	require.EqualValues(t, 12, b.status().End)
}

func TestConsolidatedRecordsSurviveARegistrationChange(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(flagged(20))
	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(20, 0, "local"), batch(21, 0, "local")}))
	again := flagged(20)
	again.LeaderEpoch, again.PartitionEpoch = 7, 14
	for range 2 { // with the prefix, and without
		b.Apply(again)
		require.EqualValues(t, 22, b.status().End)
		b.requireTier(21, switchover.TierLocal)
		b.DeletePass(true)
		require.EqualValues(t, 20, b.status().LocalLogStart)
	}
}

// One record among them of another epoch than the seal's, and all go.
func TestRecordsOfAnotherEpochAboveTheSealAreCut(t *testing.T) {
	for _, epochs := range [][2]int32{{4, 5}, {5, 6}} {
		b := filled(t, 20)
		for i, epoch := range epochs {
			next := batch(20+int64(i), epoch, "local")
			next.Kind = switchover.Consolidated
			require.NoError(t, b.log.AppendBatches([]switchover.Batch{next}))
		}
		b.Apply(flagged(20))
		require.EqualValues(t, 20, b.status().End, epochs)
	}
}

// An operator seals a partition that was classic: the seal has the epoch in which its leader
// has written. What it wrote above the seal goes all the same, and what is consolidated in
// that epoch later stays.
func TestOperatorsSealOfAClassicPartitionCutsItsRecords(t *testing.T) {
	sealed, flag := waiting(15), flagged(15)
	sealed.DisklessLeaderEpoch, flag.DisklessLeaderEpoch = 3, 3
	b := filled(t, 20)
	b.Apply(sealed)
	require.EqualValues(t, 15, b.status().End)
	b.remote.list(14)
	b.Apply(flag)
	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(15, 0, "local"), batch(16, 0, "local")}))
	for range 2 { // with the prefix, and without
		flag.PartitionEpoch++
		b.Apply(flag)
		b.requireTier(16, switchover.TierLocal)
		b.DeletePass(true)
		require.Equal(t, []int64{15, 17}, []int64{b.status().LocalLogStart, b.status().End})
	}

	late := filled(t, 20) // it was down until the flag
	late.Apply(flag)
	require.EqualValues(t, 15, late.status().End)
}

func TestLeaderHandsOverToConsolidation(t *testing.T) {
	b := filled(t, 20)
	for _, reg := range []switchover.Registration{pending(), waiting(20)} {
		b.Apply(reg)
		classic, consolidation := b.fetchers.running()
		require.Empty(t, classic+consolidation)
		require.ErrorIs(t, b.AppendConsolidated(ref, []switchover.Batch{batch(20, 0, "local")}), switchover.ErrFencedLeaderEpoch)
	}
	b.Apply(flagged(20))
	_, consolidation := b.fetchers.running()
	require.Equal(t, "runs", consolidation)
	require.ErrorIs(t, b.AppendConsolidated(ref, []switchover.Batch{batch(19, 0, "local")}), switchover.ErrNotAboveSeal)
	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(20, 0, "local")}))
}

func TestFollowerHandsOverToConsolidation(t *testing.T) {
	b := filled(t, 20)
	b.Apply(ledBy(waiting(20), 2))
	classic, consolidation := b.fetchers.running()
	require.Empty(t, classic, "at the seal and in the ISR")
	require.Empty(t, consolidation)
	b.Apply(ledBy(flagged(20), 2))
	_, consolidation = b.fetchers.running()
	require.Equal(t, "runs", consolidation, "the epoch bump of the flag runs it")
}

func TestFollowerOutsideTheISRStaysOnTheClassicFetcher(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(ledBy(waiting(20), 2), 2))
	require.False(t, b.LeavesClassic(ref))
	classic, _ := b.fetchers.running()
	require.Equal(t, "from 2 in epoch 5", classic)

	joined := ledBy(waiting(20), 2)
	joined.PartitionEpoch++
	b.Apply(joined)
	require.True(t, b.LeavesClassic(ref))
	classic, _ = b.fetchers.running()
	require.Empty(t, classic)
}

// In phase 2 membership says nothing about the prefix, so it is not waited for.
func TestFollowerInPhase2LeavesAtOnce(t *testing.T) {
	b := filled(t, 19)
	b.Apply(withISR(ledBy(flagged(20), 2), 2))
	require.False(t, b.LeavesClassic(ref), "below the seal")
	_, consolidation := b.fetchers.running()
	require.Empty(t, consolidation, "consolidation would leave a hole")

	require.NoError(t, b.AppendFetched(ref, 6, []switchover.Batch{batch(19, 3, "local")}, 20))
	require.True(t, b.LeavesClassic(ref))
	b.Evicted(ref)
	b.RevisitPass()
	classic, consolidation := b.fetchers.running()
	require.Empty(t, classic)
	require.Equal(t, "runs", consolidation)
	require.True(t, b.status().DeletionQueued)
}

func TestStaleFetchIsRefused(t *testing.T) {
	b := filled(t, 19)
	b.Apply(ledBy(waiting(20), 2))
	require.ErrorIs(t, b.AppendFetched(ref, 4, []switchover.Batch{batch(19, 3, "local")}, 20), switchover.ErrFencedLeaderEpoch)
	require.ErrorIs(t, b.TruncateFollower(ref, 4, 3), switchover.ErrFencedLeaderEpoch)
	require.ErrorIs(t, b.AppendFetched(ref, 5, []switchover.Batch{batch(19, 3, "local"), batch(20, 4, "local")}, 21), switchover.ErrNotAboveSeal)
	require.NoError(t, b.TruncateFollower(ref, 5, 17))
	require.EqualValues(t, 17, b.status().End)
}

func TestRebuildRestartsAtTheSeal(t *testing.T) {
	b := filled(t, 15)
	b.remote.list(19)
	b.Apply(flagged(20))
	require.NoError(t, b.Rebuild(ref, 2, []switchover.EpochStart{{Epoch: 3, Start: 2}}))
	s := b.status()
	require.Equal(t, []int64{2, 20, 20, 20}, []int64{s.LogStart, s.LocalLogStart, s.HighWatermark, s.End})
	require.NoError(t, b.AppendConsolidated(ref, []switchover.Batch{batch(20, 0, "local")}))
	require.NoError(t, b.Rebuild(ref, 2, nil), "nothing is left to rebuild")
	require.EqualValues(t, 21, b.status().End)
	b.requireTier(18, switchover.TierRemote)
}

func TestAbortAndRearm(t *testing.T) {
	b := filled(t, 15)
	b.Apply(pending())
	aborted := classic()
	aborted.LeaderEpoch, aborted.PartitionEpoch = 6, 12
	b.Apply(aborted)
	base, err := b.Append(ref, 1, []byte("local 15"))
	require.NoError(t, err)
	require.EqualValues(t, 15, base)
	b.CommitPass()
	require.Empty(t, b.plane.seals, "nothing to seal any more")

	rearmed := pending()
	rearmed.LeaderEpoch, rearmed.PartitionEpoch = 7, 13
	b.Apply(rearmed)
	_, err = b.Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed)
	b.Apply(pending())
	_, err = b.Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrSealed, "what is older changes nothing")
}

func TestStorageErrorTakesThePartitionOffline(t *testing.T) {
	b := filled(t, 15)
	b.Apply(classic())
	require.NoError(t, b.log.Close())
	b.failures.handle = func() { // what a broker does about it may change roles
		b.failures.handle = nil
		b.Apply(ledBy(pending(), 2))
	}
	b.Apply(pending())
	require.Len(t, b.failures.all(), 2)
	require.Contains(t, b.status().Offline, "log directory failed")
	_, err := b.Append(ref, 1, []byte("late"))
	require.ErrorIs(t, err, switchover.ErrOffline)
}

func TestBrokerWithoutALogServesWhatNeedsNone(t *testing.T) {
	b := newBroker(t)
	_, _, err := b.Remove(ref)
	require.NoError(t, err)
	born := classic()
	born.State = ops.StateBornDiskless
	b.Apply(born)
	b.requireTier(4, switchover.TierDiskless)

	b.Apply(classic())
	_, err = b.consume(0)
	require.ErrorIs(t, err, switchover.ErrNotLeaderOrFollower)
	_, err = b.fetch(2, 0, 4)
	require.ErrorIs(t, err, switchover.ErrNotLeaderOrFollower)
}
