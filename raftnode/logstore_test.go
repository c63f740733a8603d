package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// snapshotsAt is a snapshot store that holds one snapshot, or none at index 0.
type snapshotsAt struct {
	raft.SnapshotStore
	index uint64
}

func (s *snapshotsAt) List() ([]*raft.SnapshotMeta, error) {
	if s.index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{{Index: s.index}}, nil
}

// eachLogStore runs a test on both.
func eachLogStore(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{LogStoreBoltDB, LogStoreWAL} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

func openTestLog(t *testing.T, path, kind string) (*logStore, *snapshotsAt) {
	t.Helper()
	snapshots := &snapshotsAt{}
	s, err := openLog(path, kind, snapshots, func(string, time.Duration) {})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, snapshots
}

// testEntries are entries of all types that raft writes, from first to last.
func testEntries(first, last, term uint64) []*raft.Log {
	var entries []*raft.Log
	for i := first; i <= last; i++ {
		entry := &raft.Log{Index: i, Term: term, AppendedAt: time.Unix(int64(i), 7), Data: fmt.Appendf(nil, "entry %d of term %d", i, term)}
		switch i % 10 {
		case 1:
			entry.Type, entry.Data = raft.LogNoop, nil
		case 2:
			entry.Type, entry.Data = raft.LogBarrier, nil
		case 3:
			entry.Type = raft.LogConfiguration
		case 4:
			entry.Extensions = []byte("more")
		}
		entries = append(entries, entry)
	}
	return entries
}

func TestLogKeepsEntriesAsTheyWere(t *testing.T) { eachLogStore(t, testLogKeepsEntriesAsTheyWere) }

func testLogKeepsEntriesAsTheyWere(t *testing.T, kind string) {
	s, _ := openTestLog(t, filepath.Join(t.TempDir(), logFile), kind)
	entries := testEntries(1, 20, 2)
	before := make([]raft.Log, len(entries))
	for i, entry := range entries {
		before[i] = *entry
	}
	require.NoError(t, s.StoreLogs(entries[:19]))
	require.NoError(t, s.StoreLog(entries[19]))
	for i, entry := range entries {
		require.Equal(t, before[i], *entry, "raft's own entry is not changed")
		var got raft.Log
		require.NoError(t, s.GetLog(entry.Index, &got))
		require.True(t, entry.AppendedAt.Equal(got.AppendedAt))
		got.AppendedAt = entry.AppendedAt
		require.True(t, bytes.Equal(entry.Data, got.Data))
		got.Data = entry.Data
		require.Equal(t, *entry, got)
	}
	require.ErrorIs(t, s.GetLog(21, new(raft.Log)), raft.ErrLogNotFound)
}

func TestLogKeepsPromises(t *testing.T) {
	path := filepath.Join(t.TempDir(), logFile)
	s, err := openLog(path, testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	_, err = s.GetUint64(keyCurrentTerm)
	require.EqualError(t, err, "not found", "raft compares the text")
	require.NoError(t, s.SetUint64(keyCurrentTerm, 7))
	require.NoError(t, s.SetUint64(keyLastVoteTerm, 8))
	require.NoError(t, s.Set([]byte(keyLastVoteCand), []byte("n2")))
	require.NoError(t, s.SetUint64(keyCurrentTerm, 6))
	require.EqualValues(t, 8, s.term.Load(), "the highest term that was ever seen")
	require.NoError(t, s.Close())

	s, _ = openTestLog(t, path, testLogStore)
	require.EqualValues(t, 8, s.term.Load())
	term, err := s.GetUint64(keyCurrentTerm)
	require.NoError(t, err)
	require.EqualValues(t, 8, term)
	candidate, err := s.Get([]byte(keyLastVoteCand))
	require.NoError(t, err)
	require.Equal(t, "n2", string(candidate))
	_, err = s.GetUint64([]byte(keyLastVoteCand))
	require.ErrorIs(t, err, ErrLogDamaged)
}

func TestLogFindsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), logFile)
	s, err := openLog(path, LogStoreBoltDB, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	require.NoError(t, s.StoreLogs(testEntries(1, 10, 2)))
	require.NoError(t, s.SetUint64(keyCurrentTerm, 2))
	// Past the checksums: an entry under another's index, one with other data, one
	// that was never sealed, and a promise.
	var entry raft.Log
	require.NoError(t, s.bolt.GetLog(5, &entry))
	entry.Index = 6
	require.NoError(t, s.bolt.StoreLog(&entry))
	require.NoError(t, s.bolt.GetLog(7, &entry))
	entry.Data[0] ^= 1
	require.NoError(t, s.bolt.StoreLog(&entry))
	require.NoError(t, s.bolt.StoreLog(&raft.Log{Index: 8, Term: 2}))
	require.NoError(t, s.bolt.SetUint64(keyLastVoteTerm, 9))
	for i := uint64(6); i <= 8; i++ {
		require.ErrorIs(t, s.GetLog(i, &entry), ErrLogDamaged, i)
	}
	require.NoError(t, s.GetLog(5, &entry))
	_, err = s.GetUint64(keyLastVoteTerm)
	require.ErrorIs(t, err, ErrLogDamaged)
	require.NoError(t, s.Close())
	_, err = openLog(path, LogStoreBoltDB, &snapshotsAt{}, func(string, time.Duration) {})
	require.ErrorIs(t, err, ErrLogDamaged)
}

// Once raft runs, damage and a term that cannot be stored end the goroutine that
// asked, where raft would panic, and tell the node.
func TestLogStopsWhereRaftWouldPanic(t *testing.T) {
	s, err := openLog(filepath.Join(t.TempDir(), logFile), LogStoreBoltDB, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	require.NoError(t, s.bolt.StoreLogs([]*raft.Log{{Index: 1, Data: []byte("not sealed")}}))
	var halted []error
	halt := func(err error) { halted = append(halted, err) }
	s.halt.Store(&halt)
	for _, call := range []func() error{
		func() error { return s.GetLog(1, new(raft.Log)) },
		func() error { return errors.Join(s.Close(), s.SetUint64(keyCurrentTerm, 3)) },
	} {
		ended, went := make(chan struct{}), false
		go func() {
			defer close(ended)
			_ = call()
			went = true
		}()
		<-ended
		require.False(t, went, "the caller went on")
	}
	require.Len(t, halted, 2)
	require.ErrorIs(t, halted[0], ErrLogDamaged)
	require.NotErrorIs(t, halted[1], ErrLogDamaged)
	// A vote that cannot be stored is not given, and raft goes on. A log that was
	// closed is not a damaged one.
	require.Error(t, s.SetUint64(keyLastVoteTerm, 3))
	require.Error(t, s.GetLog(1, new(raft.Log)))
	require.Len(t, halted, 2)
}

func bounds(t *testing.T, s *logStore) (first, last uint64) {
	t.Helper()
	first, err := s.FirstIndex()
	require.NoError(t, err)
	last, err = s.LastIndex()
	require.NoError(t, err)
	for i := first; i <= last && i > 0; i++ {
		require.NoError(t, s.GetLog(i, new(raft.Log)))
	}
	return first, last
}

func TestLogDeletesFromBothEnds(t *testing.T) { eachLogStore(t, testLogDeletesFromBothEnds) }

func testLogDeletesFromBothEnds(t *testing.T, kind string) {
	s, snapshots := openTestLog(t, filepath.Join(t.TempDir(), logFile), kind)
	require.NoError(t, s.StoreLogs(testEntries(1, 5000, 2)))

	require.NoError(t, s.DeleteRange(4800, 5000)) // a conflict, before any snapshot
	first, last := bounds(t, s)
	require.Equal(t, [2]uint64{1, 4799}, [2]uint64{first, last})

	snapshots.index = 4000
	require.NoError(t, s.DeleteRange(1, 3000)) // compaction
	first, last = bounds(t, s)
	require.Equal(t, [2]uint64{3001, 4799}, [2]uint64{first, last})

	require.NoError(t, s.DeleteRange(3001, 4799)) // all of it, after a snapshot was installed
	first, last = bounds(t, s)
	require.Equal(t, [2]uint64{4001, 4799}, [2]uint64{first, last})

	require.NoError(t, s.DeleteRange(4001, 4799)) // a conflict at the oldest entry
	first, last = bounds(t, s)
	require.Equal(t, [2]uint64{0, 0}, [2]uint64{first, last})
	require.NoError(t, s.DeleteRange(4001, 4799))
}

func TestGaps(t *testing.T) {
	var g gaps
	kinds := map[rune]raft.LogType{'c': raft.LogCommand, 'f': raft.LogConfiguration, 'n': raft.LogNoop, 'b': raft.LogBarrier}
	put := func(first int, types string) {
		for i, k := range types {
			g.add(&raft.Log{Index: uint64(first + i), Type: kinds[k]})
		}
	}
	seen := func(from, to int) (all []uint64) {
		for i := from; i <= to; i++ {
			all = append(all, g.lastSeen(uint64(i)))
		}
		return all
	}
	require.Equal(t, []uint64{0, 1, 2}, seen(0, 2))
	put(1, "fnbccnbc")
	require.Equal(t, []uint64{0, 1, 1, 1, 4, 5, 5, 5, 8, 9}, seen(0, 9))
	put(6, "cn") // overwrites a suffix
	require.Equal(t, []uint64{5, 6, 6, 8}, seen(5, 8))
	g.dropTo(3)
	require.Equal(t, []uint64{2, 3, 4, 5, 6, 6}, seen(2, 7))
	g.dropFrom(7)
	require.Equal(t, []uint64{6, 7}, seen(6, 7))
	g = gaps{}
	put(1, "nb")
	require.Equal(t, []uint64{0, 0, 0, 3}, seen(0, 3))
}

func TestScanGapsReadsTheTailOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), logFile)
	s, err := openLog(path, LogStoreBoltDB, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	require.NoError(t, s.StoreLogs(testEntries(1, 25, 2)))
	require.NoError(t, s.bolt.StoreLog(&raft.Log{Index: 5})) // would be damage
	require.NoError(t, s.Close())

	s, _ = openTestLog(t, path, LogStoreBoltDB)
	require.NoError(t, s.scanGaps(19))
	require.EqualValues(t, 20, s.gaps.lastSeen(22))
	require.EqualValues(t, 23, s.gaps.lastSeen(23))
	require.ErrorIs(t, s.scanGaps(4), ErrLogDamaged)
}

// A node whose newest record was replaced by one of the same state with a lower
// index must not take a compaction for the removal of a conflict.
func TestLogIsNotCutBeyondTheState(t *testing.T) { eachLogStore(t, testLogIsNotCutBeyondTheState) }

func testLogIsNotCutBeyondTheState(t *testing.T, kind string) {
	s, snapshots := openTestLog(t, filepath.Join(t.TempDir(), logFile), kind)
	require.NoError(t, s.StoreLogs(testEntries(1, 100, 2)))
	snapshots.index = 40
	require.NoError(t, s.DeleteRange(1, 60))
	first, last := bounds(t, s)
	require.EqualValues(t, []uint64{41, 100}, []uint64{first, last})
	require.NoError(t, s.DeleteRange(41, 60))
	first, last = bounds(t, s)
	require.EqualValues(t, []uint64{41, 100}, []uint64{first, last})
	require.NoError(t, s.DeleteRange(61, 100), "a conflict")
	first, last = bounds(t, s)
	require.EqualValues(t, []uint64{41, 60}, []uint64{first, last})
}

// raft handles heartbeats beside its main loop: one of an older term can be stored last. A
// node that has voted in the later one must not be in the older one after a restart.
func TestTermStoredLastIsNotAnOlderOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), logFile)
	s, err := openLog(path, testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	require.NoError(t, s.SetUint64(keyCurrentTerm, 6))
	require.NoError(t, s.SetUint64(keyLastVoteTerm, 6))
	require.NoError(t, s.SetUint64(keyCurrentTerm, 5))
	require.NoError(t, s.Close())
	s, _ = openTestLog(t, path, testLogStore)
	term, err := s.GetUint64(keyCurrentTerm)
	require.NoError(t, err)
	require.EqualValues(t, 6, term)
}
