package switchover_test

import (
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// A change of role hangs in the fetcher that it stops. Whatever that fetcher is at goes on,
// and so do reads and deletions of the partition.
func TestStalledRoleHoldsUpNothingButRoles(t *testing.T) {
	b := filled(t, 20)
	b.remote.list(19)
	b.Apply(ledBy(waiting(20), 2))
	stalled, proceed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(proceed) })
	b.fetchers.stopping = func() {
		close(stalled)
		<-proceed
	}
	t.Cleanup(release)
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		b.Apply(ledBy(flagged(20), 2))
	}()
	<-stalled
	require.True(t, b.LeavesClassic(ref))
	require.NoError(t, b.AppendFetched(ref, 6, nil, 20))
	b.requireTier(5, switchover.TierRemote)
	b.Evicted(ref)
	b.DeletePass(false)
	require.EqualValues(t, 20, b.status().LocalLogStart)
	b.CommitPass()
	require.False(t, isClosed(applied))
	b.fetchers.stopping = nil
	release()
	<-applied
}

// A disk hangs in the deletion of one prefix. That partition waits, and no other does, nor
// does what is done for all of them on one goroutine.
func TestStalledDeletionHoldsUpItsPartitionAlone(t *testing.T) {
	b := filled(t, 20)
	slow := ops.LogRef{TopicID: ref.TopicID, Partition: 1}
	stalled, proceed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(proceed) })
	config := segmentlog.DefaultConfig()
	config.BeforeUnlink = func() {
		close(stalled)
		<-proceed
	}
	log := openLogWith(t, config)
	t.Cleanup(release)
	fill(t, log, 20)
	require.NoError(t, b.Open(slow, log))
	metrics := prometheus.NewRegistry()
	b.RegisterMetrics(metrics)
	reg := flagged(20)
	reg.Partition = 1
	b.remote.listOf(slow, 19)
	b.Apply(reg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.DeletePass(false)
	}()
	<-stalled
	require.True(t, b.Locked(slow))
	b.Evicted(slow)
	b.Apply(pending())
	b.requireTier(5, switchover.TierLocal)
	b.CommitPass()
	require.Len(t, b.plane.seals, 1)
	families, err := metrics.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, families)
	release()
	<-done
}

// The registration that a commit brings about is applied before the commit is answered.
func TestNothingIsLockedDuringACommit(t *testing.T) {
	b := filled(t, 20)
	b.Apply(pending())
	b.plane.during = func() {
		b.Apply(waiting(20))
		b.requireTier(5, switchover.TierLocal)
	}
	b.CommitPass()
	require.Len(t, b.plane.seals, 1)
	require.Equal(t, ops.StatePrefixWaitingForUpload, b.status().State)
}

// All at once, for the race detector and against deadlocks: roles change to and fro while
// the partition is written, read, moved and deleted.
func TestEverythingAtOnce(t *testing.T) {
	b := filled(t, 40)
	b.remote.list(39)
	b.Start()
	var run sync.WaitGroup
	again := func(n int, fn func(i int)) {
		run.Go(func() {
			for i := range n {
				fn(i)
			}
		})
	}
	again(40, func(i int) {
		reg := []switchover.Registration{pending(), waiting(40), flagged(40)}[i/14]
		reg.PartitionEpoch = int32(20 + i)
		b.Apply(ledBy(reg, int32(1+i%2)))
	})
	again(300, func(i int) { _, _ = b.consume(int64(i % 45)) })
	again(300, func(i int) { _, _ = b.fetch(2, int64(i%41), 5) })
	again(100, func(int) { _, _ = b.Append(ref, 1, []byte("late")) })
	again(100, func(int) { _ = b.AppendFetched(ref, 5, nil, 40) })
	again(20, func(int) {
		if b.StartMove(ref, openLog(t)) == nil {
			for {
				if state, _, err := b.MoveStep(ref, 1<<10); err != nil || state != switchover.MoveCopying {
					break
				}
			}
			_, _ = b.CancelMove(ref)
		}
	})
	again(100, func(int) { _ = b.LeavesClassic(ref); b.Evicted(ref) })
	again(100, func(int) { b.clock.Advance(time.Second) })
	run.Wait()
	eventually(t, "the prefix is deleted in the end", func() bool {
		b.clock.Advance(time.Second)
		return b.status().LocalLogStart == 40
	})
	b.requireTier(39, switchover.TierRemote)
	require.Empty(t, b.failures.all())
}
