package switchover_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// asked are the members of the last ISR that was asked for, and how many were asked for.
func (c *plane) asked() (isr []int32, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.isrs) == 0 {
		return nil, 0
	}
	for _, m := range c.isrs[len(c.isrs)-1].NewISR {
		isr = append(isr, m.BrokerID)
	}
	return isr, len(c.isrs)
}

func (b *broker) mustFetch(replica int32, offset int64, epoch int32) {
	b.t.Helper()
	_, err := b.fetch(replica, offset, epoch)
	require.NoError(b.t, err)
}

func TestReplicaWithAPartialPrefixDoesNotJoin(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(waiting(20), 1, 2))
	b.mustFetch(3, 19, 5)
	b.CommitPass()
	_, n := b.plane.asked()
	require.Zero(t, n)

	b.mustFetch(3, 20, 5)
	b.CommitPass()
	require.Equal(t, []*ops.AlterPartitionRequest{{
		TopicID: ref.TopicID, BrokerID: me, LeaderEpoch: 5, PartitionEpoch: 12,
		NewISR: []ops.ISRMember{{BrokerID: 1, BrokerEpoch: 101}, {BrokerID: 2, BrokerEpoch: 102}, {BrokerID: 3, BrokerEpoch: 103}},
	}}, b.plane.isrs)
}

// The leader may not know the high watermark yet: in the pending state a replica joins at
// the end that the epoch began with.
func TestReplicaJoinsAtTheStartOfTheEpoch(t *testing.T) {
	b := newBroker(t)
	require.NoError(t, b.log.AppendBatches([]switchover.Batch{batch(0, 3, "local"), batch(1, 3, "local")}))
	b.Apply(withISR(pending(), 1, 2))
	b.mustFetch(3, 1, 5)
	b.CommitPass()
	_, n := b.plane.asked()
	require.Zero(t, n)
	b.mustFetch(3, 2, 5)
	b.CommitPass()
	isr, _ := b.plane.asked()
	require.Equal(t, []int32{1, 2, 3}, isr)
}

func TestOtherIncarnationOrFencedReplicaDoesNotJoin(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(waiting(20), 1, 2))
	b.plane.dead = []int32{3}
	b.mustFetch(3, 20, 5)
	b.CommitPass()
	_, n := b.plane.asked()
	require.Zero(t, n)

	b.plane.dead = nil
	old := switchover.ReadRequest{Ref: ref, Offset: 20, MaxBytes: 1, Replica: 3, BrokerEpoch: 55, LeaderEpoch: 5}
	_, err := b.Read(t.Context(), old)
	require.NoError(t, err)
	b.CommitPass()
	_, n = b.plane.asked()
	require.Zero(t, n, "the log that fetched may not be the one that is registered")
}

func TestSilentReplica(t *testing.T) {
	for name, c := range map[string]struct {
		reg    switchover.Registration
		offset int64 // of the last fetch of replica 3, -1: none in this epoch
		shrunk bool
	}{
		"classic":                            {classic(), 20, true},
		"classic, never heard of":            {classic(), -1, true},
		"pending":                            {pending(), 20, true},
		"sealed, at the seal":                {waiting(20), 20, false},
		"sealed, never heard of":             {waiting(20), -1, false},
		"sealed, below the seal":             {waiting(20), 12, true},
		"flagged: membership is not for it":  {flagged(20), -1, false},
		"flagged: membership is not for her": {flagged(20), 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := filled(t, 20)
			b.Apply(c.reg)
			if c.offset >= 0 {
				b.mustFetch(3, c.offset, c.reg.LeaderEpoch)
			}
			b.clock.Advance(29 * time.Second)
			b.mustFetch(2, 20, c.reg.LeaderEpoch)
			b.CommitPass()
			_, n := b.plane.asked()
			require.Zero(t, n)

			b.clock.Advance(2 * time.Second)
			b.CommitPass()
			isr, n := b.plane.asked()
			if !c.shrunk {
				require.Zero(t, n)
				return
			}
			require.Equal(t, []int32{1, 2}, isr)
		})
	}
}

// A broker that may be in the ISR already holds back the high watermark, or it could be
// elected without what is committed.
func TestHighWatermarkWaitsForAProposedMember(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(classic(), 1))
	b.mustFetch(2, 20, 4)
	b.CommitPass()
	isr, _ := b.plane.asked()
	require.Equal(t, []int32{1, 2}, isr)
	_, err := b.Append(ref, 1, []byte("local 20"))
	require.NoError(t, err)
	require.EqualValues(t, 20, b.status().HighWatermark)
	b.Apply(withISR(classic(), 1)) // the same once more says nothing of what was asked
	require.EqualValues(t, 20, b.status().HighWatermark)
	b.mustFetch(2, 21, 4)
	require.EqualValues(t, 21, b.status().HighWatermark)
}

// Nor is it let go when a refusal follows a try whose outcome is not known.
func TestHighWatermarkWaitsForAMemberOfAnUnknownOutcome(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(classic(), 1))
	b.mustFetch(2, 20, 4)
	b.plane.err = errors.New("outcome unknown")
	b.CommitPass()
	b.plane.err, b.plane.answer = nil, ops.IneligibleReplica
	b.clock.Advance(time.Second)
	b.CommitPass()
	require.Len(t, b.plane.isrs, 2)
	_, err := b.Append(ref, 1, []byte("local 20"))
	require.NoError(t, err)
	require.EqualValues(t, 20, b.status().HighWatermark)

	refused := withISR(classic(), 1)
	refused.PartitionEpoch++
	b.Apply(refused)
	require.EqualValues(t, 21, b.status().HighWatermark)
}

func TestRefusedMemberIsNotWaitedFor(t *testing.T) {
	b := filled(t, 20)
	b.Apply(withISR(classic(), 1))
	b.mustFetch(2, 20, 4)
	b.plane.answer = ops.IneligibleReplica
	b.CommitPass()
	_, err := b.Append(ref, 1, []byte("local 20"))
	require.NoError(t, err)
	require.EqualValues(t, 21, b.status().HighWatermark)
}

func TestHighWatermarkIsWhatTheISRHas(t *testing.T) {
	b := filled(t, 20)
	b.Apply(classic())
	for range 3 {
		_, err := b.Append(ref, 1, []byte("local"))
		require.NoError(t, err)
	}
	b.mustFetch(2, 23, 4)
	require.EqualValues(t, 20, b.status().HighWatermark, "nothing is known of replica 3")
	b.mustFetch(3, 21, 4)
	require.EqualValues(t, 21, b.status().HighWatermark)
	_, err := b.consume(21)
	require.NoError(t, err)
	got, err := b.consume(21)
	require.NoError(t, err)
	require.Empty(t, got.Batches)
}

func TestHighWatermarkFollowsAShrunkISR(t *testing.T) {
	b := newBroker(t)
	require.NoError(t, b.log.AppendBatches([]switchover.Batch{batch(0, 3, "local"), batch(1, 3, "local")}))
	b.Apply(pending())
	require.Zero(t, b.status().HighWatermark)
	alone := withISR(pending(), me)
	alone.PartitionEpoch++
	b.Apply(alone)
	require.EqualValues(t, 2, b.status().HighWatermark, "nobody is left who could fetch or produce")
	b.CommitPass()
	require.Len(t, b.plane.seals, 1)
}
