package fsm

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// machine is an FSM over a store of its own.
type machine struct {
	*FSM
	store   *store.Store
	stopped atomic.Int32
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), store.Options{Sync: store.SyncInterval})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m := &machine{store: s}
	m.FSM, err = New(s, m.owner())
	require.NoError(t, err)
	return m
}

func (m *machine) owner() Owner {
	return Owner{Stopped: func(error) { m.stopped.Add(1) }, NoSpace: func(error) bool { return false }}
}

func (m *machine) meta(t *testing.T) (meta store.Meta) {
	t.Helper()
	require.NoError(t, m.store.View(func(tx *store.ReadTx) error { meta = tx.Meta(); return nil }))
	return meta
}

var topic = store.TopicID{15: 7}

// entryOf is the log entry of the first command of a write.
func entryOf(t *testing.T, s *store.Store, index uint64, w ops.Write) *raft.Log {
	t.Helper()
	var cmd ops.Command
	require.NoError(t, s.View(func(tx *store.ReadTx) (err error) {
		cmd, err = w.Begin(ops.DefaultSettings()).Next(tx, 1000)
		return err
	}))
	require.NotNil(t, cmd)
	data, err := ops.Encode(cmd, 1000)
	require.NoError(t, err)
	return &raft.Log{Index: index, Term: 3, Type: raft.LogCommand, Data: data}
}

func create() ops.Write {
	return &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topic, TopicName: "t", NumPartitions: 2}}}
}

func commit(key string) ops.Write {
	return &ops.CommitFileRequest{ObjectKey: key, Format: 1, FileSize: 10, Batches: []ops.CommitBatch{{
		TopicID: topic, Magic: 2, ByteSize: 10, LastOffset: 4, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
	}}}
}

// members is a configuration entry of one server.
func members(index uint64, id raft.ServerID) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(configurationOf(id))}
}

func configurationOf(id raft.ServerID) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: id, Address: "a:1"}}}
}

// history is a configuration, a topic and n commits, from index 1 on.
func history(t *testing.T, n int) []*raft.Log {
	empty := newMachine(t)
	entries := []*raft.Log{members(1, "n1"), entryOf(t, empty.store, 2, create())}
	for i := range n {
		entries = append(entries, entryOf(t, empty.store, uint64(3+i), commit(fmt.Sprintf("f%d", i))))
	}
	return entries
}

func TestBatchIsOneTransactionWithItsIndex(t *testing.T) {
	m := newMachine(t)
	answers := m.ApplyBatch(history(t, 3))
	require.Len(t, answers, 5)
	require.Equal(t, Result{Index: 1}, answers[0])
	require.EqualValues(t, 2, answers[1].(Result).Value.(ops.CreatedTopic).PartitionsCreated)
	for i, a := range answers[2:] {
		r := a.(Result)
		require.EqualValues(t, 3+i, r.Index)
		require.NoError(t, r.Err)
		require.EqualValues(t, 5*i, r.Value.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset)
	}
	require.EqualValues(t, 5, m.Applied())
	require.EqualValues(t, 1, m.FeatureLevel())
	require.EqualValues(t, 5, m.meta(t).AppliedIndex)
	require.EqualValues(t, 3, m.meta(t).AppliedTerm)
}

func TestEntriesAreAppliedOnceHoweverTheyAreCut(t *testing.T) {
	entries := history(t, 6)
	once := newMachine(t)
	once.ApplyBatch(entries)

	again := newMachine(t)
	for _, cut := range [][2]int{{0, 1}, {0, 3}, {1, 3}, {2, 7}, {0, 8}, {0, 8}} {
		applied := again.Applied()
		answers := again.ApplyBatch(entries[cut[0]:cut[1]])
		require.Len(t, answers, cut[1]-cut[0])
		for i, a := range answers {
			r := a.(Result)
			require.EqualValues(t, cut[0]+i+1, r.Index)
			require.Equal(t, r.Index <= applied, r.Err == ErrApplied)
		}
	}
	require.Equal(t, once.meta(t), again.meta(t))
	require.Equal(t, Result{Index: 1, Err: ErrApplied}, again.Apply(entries[0]))
	require.Equal(t, Result{Index: 8, Err: ErrApplied}, again.Apply(entries[7]))
	require.EqualValues(t, 8, again.Applied())
	require.NoError(t, again.Err())
}

func TestRefusedCommandIsAResult(t *testing.T) {
	m := newMachine(t)
	entries := history(t, 1)
	m.ApplyBatch(entries)
	other := commit("f0").(*ops.CommitFileRequest)
	other.FileSize++
	entry := entryOf(t, newMachine(t).store, 4, other)
	r := m.Apply(entry).(Result)
	require.NoError(t, r.Err)
	require.ErrorIs(t, r.Value.(*ops.Error), &ops.Error{Code: ops.ObjectKeyConflict})
	require.EqualValues(t, 4, m.Applied())
}

func TestWhatCannotBeAppliedStops(t *testing.T) {
	good := history(t, 2)
	raiseTo300, err := hex.DecodeString("01054658209401b372616973652d666561747572652d6c6576656ccf0000018bcfe5687b91cd012c") // of ops/testdata/entries.txt
	require.NoError(t, err)
	damaged := bytes.Clone(good[3].Data)
	damaged[len(damaged)-1] ^= 1
	for name, bad := range map[string]*raft.Log{
		"damaged entry":  {Index: 4, Term: 3, Type: raft.LogCommand, Data: damaged},
		"unknown format": {Index: 4, Term: 3, Type: raft.LogCommand, Data: append([]byte{9}, good[3].Data[1:]...)},
		"later level":    {Index: 4, Term: 3, Type: raft.LogCommand, Data: raiseTo300},
		"foreign type":   {Index: 4, Term: 3, Type: raft.LogBarrier},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.ApplyBatch(good[:2])
			before := m.meta(t)

			for i, a := range m.ApplyBatch([]*raft.Log{good[2], bad}) {
				require.EqualValues(t, 3+i, a.(Result).Index)
				require.ErrorIs(t, a.(Result).Err, ErrStopped)
			}
			require.Equal(t, before, m.meta(t), "nothing of the batch stays")
			require.ErrorContains(t, m.Err(), "entry 4: ")
			require.EqualValues(t, 1, m.stopped.Load())

			require.ErrorIs(t, m.Apply(good[2]).(Result).Err, ErrStopped, "the entry before is not applied either")
			_, err := m.Snapshot()
			require.ErrorIs(t, err, ErrStopped)
			require.ErrorIs(t, m.Restore(io.NopCloser(bytes.NewReader(nil))), ErrStopped)
			require.EqualValues(t, 1, m.stopped.Load())
			require.EqualValues(t, 2, m.Applied())
		})
	}
}

// Each node notes the digest of a checkpoint once, whatever else is in the batch.
func TestCheckpointsAreReported(t *testing.T) {
	entries := history(t, 2)
	for i := range 2 {
		entries = append(entries, entryOf(t, newMachine(t).store, uint64(5+2*i), &ops.CheckpointDigest{}), entryOf(t, newMachine(t).store, uint64(6+2*i), commit(fmt.Sprintf("g%d", i))))
	}
	seen := func(cuts ...int) map[uint64]store.Digest {
		m, noted := newMachine(t), map[uint64]store.Digest{}
		m.OnCheckpoint(func(index uint64, digest store.Digest) {
			require.NotContains(t, noted, index)
			noted[index] = digest
		})
		for from := 0; len(cuts) > 0; cuts = cuts[1:] {
			m.ApplyBatch(entries[from:cuts[0]])
			m.ApplyBatch(entries[from:cuts[0]])
			from = cuts[0]
		}
		return noted
	}
	all := seen(len(entries))
	require.Len(t, all, 2)
	require.NotEqual(t, all[5], all[7])
	require.Equal(t, all, seen(3, 5, len(entries)))
}

// A state that a newer release has carried on is not for this one.
func TestNewerFeatureLevelStops(t *testing.T) {
	m := newMachine(t)
	m.ApplyBatch(history(t, 1))
	require.NoError(t, m.store.Update(func(tx *store.WriteTx) error { tx.SetFeatureLevel(ops.FeatureLevel + 1); return nil }))
	_, err := New(m.store, m.owner())
	require.ErrorContains(t, err, "run a newer release on this node")
	behind := newMachine(t)
	require.ErrorIs(t, behind.Restore(receive(t, behind, streamOf(t, m), position(3, "n1"))), ErrStopped)
}

func TestStorageErrorStops(t *testing.T) {
	m := newMachine(t)
	entries := history(t, 1)
	require.NoError(t, m.store.Close())
	require.ErrorIs(t, m.Apply(entries[0]).(Result).Err, store.ErrClosed)
	require.ErrorIs(t, m.Err(), ErrStopped)
}

func TestWait(t *testing.T) {
	m := newMachine(t)
	entries := history(t, 2)
	require.NoError(t, m.Wait(t.Context(), 0))
	waited := make(chan error, 2)
	go func() { waited <- m.Wait(t.Context(), 3) }()
	m.ApplyBatch(entries[:2])
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, m.Wait(short, 3), context.DeadlineExceeded)
	m.ApplyBatch(entries[2:])
	require.NoError(t, <-waited)

	go func() { waited <- m.Wait(t.Context(), 100) }()
	m.Apply(&raft.Log{Index: 5, Type: raft.LogNoop})
	require.ErrorIs(t, <-waited, ErrStopped)
}
