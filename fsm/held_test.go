package fsm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// holding is a machine that keeps its transaction open; urgent gets the calls of
// Held that say so.
func holding(t *testing.T, change func(*Owner)) (m *machine, urgent <-chan struct{}) {
	t.Helper()
	m = newMachine(t)
	calls := make(chan struct{}, 100)
	owner := m.owner()
	owner.Held = func(urgent bool) {
		if urgent {
			calls <- struct{}{}
		}
	}
	if change != nil {
		change(&owner)
	}
	var err error
	m.FSM, err = New(m.store, owner)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m, calls
}

func TestHeldEntriesAreAnsweredAndSeenAfterAFlush(t *testing.T) {
	entries := history(t, 20)
	whole := newMachine(t)
	want := whole.ApplyBatch(entries)

	m, _ := holding(t, nil)
	var got []any
	for _, entry := range entries {
		got = append(got, m.Apply(entry))
	}
	require.Equal(t, want, got)
	require.Zero(t, m.meta(t).AppliedIndex)
	require.Zero(t, m.Applied())
	require.Equal(t, entries[len(entries)-1].Index, m.Answered())
	before := m.store.Unrecorded()
	require.NoError(t, m.Flush())
	require.Equal(t, before+1, m.store.Unrecorded(), "one transaction")
	require.Equal(t, whole.meta(t), m.meta(t))
	require.Equal(t, Result{Index: entries[3].Index, Err: ErrApplied}, m.Apply(entries[3]))
}

func TestAFullTransactionIsCommitted(t *testing.T) {
	m, _ := holding(t, nil)
	entries := history(t, maxHeldEntries)
	m.ApplyBatch(entries[:maxHeldEntries-1])
	require.Zero(t, m.Applied())
	m.ApplyBatch(entries[maxHeldEntries-1 : maxHeldEntries])
	require.Equal(t, entries[maxHeldEntries-1].Index, m.Applied())
}

func TestWhoWaitsForAHeldEntryGetsAFlush(t *testing.T) {
	m, urgent := holding(t, nil)
	entries := history(t, 1)
	m.ApplyBatch(entries)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- m.Wait(ctx, entries[len(entries)-1].Index) }()
	<-urgent
	require.NoError(t, m.Flush())
	require.NoError(t, <-waited)
}

func TestPointHasWhatIsHeld(t *testing.T) {
	m, _ := holding(t, nil)
	entries := append(history(t, 3), members(100, "n1"))
	m.ApplyBatch(entries)
	require.NoError(t, m.Sync())
	require.EqualValues(t, 100, m.store.Record().Index)
	require.EqualValues(t, 100, recorded(t, m).Index)
}

func TestCheckpointIsReportedOnceItIsInTheState(t *testing.T) {
	m, _ := holding(t, nil)
	var reported []uint64
	m.OnCheckpoint(func(index uint64, digest store.Digest) {
		require.Equal(t, m.meta(t).Digest, digest)
		reported = append(reported, index)
	})
	entries := history(t, 3)
	at := entries[len(entries)-1].Index + 1
	m.ApplyBatch(append(entries, entryOf(t, m.store, at, &ops.CheckpointDigest{})))
	require.Empty(t, reported)
	require.NoError(t, m.Flush())
	require.Equal(t, []uint64{at}, reported)
}

// TestHeldEntriesComeAgainAfterAFullDisk lets a transaction with answered entries
// fail for want of space.
func TestHeldEntriesComeAgainAfterAFullDisk(t *testing.T) {
	entries := history(t, 200)
	whole := newMachine(t)
	want := whole.ApplyBatch(entries)

	m := newMachine(t)
	require.NoError(t, m.store.Close())
	const most = 128 << 10 // bytes; a small file grows by doubling
	s, err := store.Open(m.store.Path(), store.Options{Sync: store.SyncInterval, MaxBytes: most})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m.store = s
	m.FSM, err = New(s, Owner{Held: func(bool) {}, NoSpace: func(error) bool { return false }})
	require.NoError(t, err)
	full := 0
	var got []any
	for i, entry := range entries {
		got = append(got, m.Apply(entry))
		if i%7 != 0 {
			continue
		}
		for err := m.Flush(); err != nil; err = m.Flush() {
			require.True(t, store.NoSpace(err))
			full++
			taken, err := m.Snapshot()
			if err == nil {
				taken.Release()
			}
			require.True(t, store.NoSpace(err), "raft would count on all that was answered being in it")
			require.NoError(t, m.Sync(), "a point without what is held")
		}
	}
	require.NoError(t, m.Close())
	require.Positive(t, full)
	require.Equal(t, want, got)
	require.Equal(t, whole.meta(t), m.meta(t), "nothing was left out or done twice")
}

// TestAStoppedMachineHoldsNoTransaction: a snapshot on its way to another node would
// wait for it, and whoever closes the node for the snapshot.
func TestAStoppedMachineHoldsNoTransaction(t *testing.T) {
	m, _ := holding(t, nil)
	entries := history(t, 3)
	m.ApplyBatch(entries[:4])
	taken, err := m.Snapshot()
	require.NoError(t, err)
	m.ApplyBatch(entries[4:])
	tooLarge := position(4, raft.ServerID(strings.Repeat("n", store.MaxPart)))
	require.ErrorIs(t, taken.Persist(positionSink{at: tooLarge}), ErrStopped)
	free := make(chan error, 1)
	go func() {
		s, err := m.store.Snapshot()
		if err == nil {
			s.Release()
		}
		free <- err
	}()
	require.Eventually(t, func() bool { return len(free) == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, <-free)
}
