package fsm

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

func streamOf(t *testing.T, m *machine) []byte {
	t.Helper()
	s, err := m.store.Snapshot()
	require.NoError(t, err)
	defer s.Release()
	stream, err := io.ReadAll(s)
	require.NoError(t, err)
	return stream
}

// receive is a stream as the snapshot store hands it to Restore.
func receive(t *testing.T, m *machine, stream []byte, at Position) *Received {
	t.Helper()
	r, err := m.store.Receive()
	require.NoError(t, err)
	_, err = io.Copy(r, bytes.NewReader(stream))
	require.NoError(t, err)
	_, err = r.Finish()
	require.NoError(t, err)
	return &Received{Receiver: r, At: at}
}

func position(index uint64, id raft.ServerID) Position {
	return Position{Index: index, Term: 3, Configuration: configurationOf(id), ConfigurationIndex: 1}
}

func recorded(t *testing.T, m *machine) Position {
	t.Helper()
	p, err := RecordedPosition(m.store)
	require.NoError(t, err)
	return p
}

// reopen ends a machine as a dying process would, and opens its state again.
func (m *machine) reopen(t *testing.T) *machine {
	t.Helper()
	require.NoError(t, m.store.Close())
	s, err := store.Open(m.store.Path(), store.Options{Sync: store.SyncInterval})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	again := &machine{store: s}
	again.FSM, err = New(s, again.owner())
	require.NoError(t, err)
	return again
}

func TestInstallAState(t *testing.T) {
	entries := history(t, 6)
	from := newMachine(t)
	from.ApplyBatch(entries[:5])
	stream := streamOf(t, from)

	behind := newMachine(t)
	behind.ApplyBatch(entries[:3])
	waited := make(chan error)
	go func() { waited <- behind.Wait(t.Context(), 5) }()
	require.NoError(t, behind.Restore(receive(t, behind, stream, position(4, "n2"))))
	require.NoError(t, <-waited)
	require.Equal(t, from.meta(t), behind.meta(t))
	want := position(4, "n2")
	want.Received = 5
	require.Equal(t, want, recorded(t, behind), "the sender's word, and that the state is newer")

	// While the log is read again up to the state, the position stays.
	require.NoError(t, behind.Sync())
	require.Equal(t, want, recorded(t, behind))
	behind.ApplyBatch(entries[4:])
	from.ApplyBatch(entries[5:])
	require.Equal(t, from.meta(t), behind.meta(t))
	require.NoError(t, behind.Sync())
	require.Equal(t, position(8, "n2"), recorded(t, behind))
}

func TestInstallKeepsAStateThatIsNewer(t *testing.T) {
	entries := history(t, 6)
	from, ahead := newMachine(t), newMachine(t)
	from.ApplyBatch(entries[:5])
	stream := streamOf(t, from)
	ahead.ApplyBatch(entries)
	before := ahead.meta(t)
	r := receive(t, ahead, stream, position(6, "n2"))
	require.NoError(t, ahead.Restore(r))
	require.NoError(t, r.Close())
	require.Equal(t, before, ahead.meta(t))
	require.EqualValues(t, 8, ahead.Applied())
	want := position(6, "n2")
	want.Received = 8
	require.Equal(t, want, recorded(t, ahead))
	require.NoFileExists(t, filepath.Join(filepath.Dir(ahead.store.Path()), "state.db.install"))
}

// raft.RecoverCluster restores from the store's own snapshot, which is no news.
func TestRestoreOfAStreamReadsItsBeginning(t *testing.T) {
	entries := history(t, 6)
	from, ahead := newMachine(t), newMachine(t)
	from.ApplyBatch(entries[:5])
	stream := streamOf(t, from)
	ahead.ApplyBatch(entries)
	require.NoError(t, ahead.Restore(io.NopCloser(bytes.NewReader(stream[:64]))))

	for _, r := range [][]byte{nil, stream[:20], stream} {
		m := newMachine(t)
		err := m.Restore(io.NopCloser(bytes.NewReader(r)))
		require.ErrorIs(t, err, ErrStopped)
		require.True(t, errors.Is(m.Err(), ErrStopped))
		require.Zero(t, m.meta(t).AppliedIndex)
	}
}

type positionSink struct {
	raft.SnapshotSink
	at Position
}

func (s positionSink) Position() Position { return s.at }

func TestSnapshotIsARecord(t *testing.T) {
	entries := history(t, 6)
	m := newMachine(t)
	m.ApplyBatch(entries[:5])
	s, err := m.Snapshot()
	require.NoError(t, err)
	require.Error(t, s.Persist(raft.SnapshotSink(nil)), "there is nothing to write")
	m.ApplyBatch(entries[5:])
	require.NoError(t, s.Persist(positionSink{at: position(6, "n1")}))
	s.Release()
	require.Equal(t, position(6, "n1"), recorded(t, m), "raft's index counts what the state never sees")
	require.EqualValues(t, 5, m.store.Record().Index)
	require.EqualValues(t, 1, m.store.Unrecorded())

	// What is released without Persist leaves nothing.
	s, err = m.Snapshot()
	require.NoError(t, err)
	s.Release()
	require.EqualValues(t, 5, m.store.Record().Index)
}

// A point taken before another one and committed after it must not bring the
// position back: the log may have been cut since.
func TestRecordsNeverGoBack(t *testing.T) {
	entries := history(t, 6)
	m := newMachine(t)
	m.ApplyBatch(entries[:5])
	early, err := m.point()
	require.NoError(t, err)
	same, err := m.point()
	require.NoError(t, err)
	require.NoError(t, same.commit(position(7, "n1")))
	require.NoError(t, early.commit(early.at))
	require.EqualValues(t, 7, recorded(t, m).Index, "the same state, further on in the log")
	old, err := m.point()
	require.NoError(t, err)
	m.ApplyBatch(entries[5:])
	require.NoError(t, m.Sync())
	require.NoError(t, old.commit(position(9, "n9")))
	require.EqualValues(t, 8, m.store.Record().Index)
	require.EqualValues(t, 8, recorded(t, m).Index)
}

// TestConfigurationIsThatOfTheState follows it through a restart, where the index
// gate skips the entries that say it.
func TestConfigurationIsThatOfTheState(t *testing.T) {
	entries := append(history(t, 2), members(5, "n2"))
	m := newMachine(t)
	m.ApplyBatch(entries[:3])
	require.NoError(t, m.Sync())
	require.Equal(t, position(3, "n1"), recorded(t, m))
	m.ApplyBatch(entries[3:])
	// As after a crash: the state has moved on, the record has not.
	m.passed = recorded(t, m)
	require.NoError(t, m.Sync())
	require.EqualValues(t, 3, recorded(t, m).Index)
	m.ApplyBatch(entries[3:4])
	require.NoError(t, m.Sync())
	require.EqualValues(t, 3, recorded(t, m).Index)
	m.ApplyBatch(entries[4:])
	require.NoError(t, m.Sync())
	want := position(5, "n2")
	want.Term, want.ConfigurationIndex = 1, 5
	require.Equal(t, want, recorded(t, m))

	again := m.reopen(t)
	require.Equal(t, want, recorded(t, again))
	require.Equal(t, want, again.passed)
}

func TestPositionDecodes(t *testing.T) {
	p := position(7, "n1")
	p.Received = 9
	b := p.encode()
	got, err := DecodePosition(b)
	require.NoError(t, err)
	require.Equal(t, p, got)
	got, err = DecodePosition(nil)
	require.NoError(t, err)
	require.Equal(t, Position{}, got)
	for _, bad := range [][]byte{b[:positionFixed-1], append([]byte{9}, b[1:]...), append(b[:positionFixed:positionFixed], 0xc1)} {
		_, err = DecodePosition(bad)
		require.Error(t, err)
	}
}

// TestNoSpaceIsWaitedFor lets a file run full of pages that the newest record holds
// on to, until the next record lets go of them.
func TestNoSpaceIsWaitedFor(t *testing.T) {
	entries := history(t, 60)
	whole := newMachine(t)
	whole.ApplyBatch(entries)

	m := newMachine(t)
	require.NoError(t, m.store.Close())
	const most = 128 << 10 // bytes; a small file grows by doubling
	s, err := store.Open(m.store.Path(), store.Options{Sync: store.SyncInterval, MaxBytes: most})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m.store = s
	full, room := 0, 0
	m.FSM, err = New(s, Owner{NoSpace: func(err error) bool {
		if err == nil {
			room++
			return true
		}
		require.True(t, store.NoSpace(err))
		if full++; full%3 == 0 {
			require.NoError(t, m.Sync())
		}
		return true
	}})
	require.NoError(t, err)
	for _, entry := range entries {
		require.NoError(t, m.Apply(entry).(Result).Err)
	}
	require.Positive(t, room)
	require.Equal(t, 3*room, full)
	require.Equal(t, whole.meta(t), m.meta(t), "nothing was left out or done twice")
	require.NoError(t, m.Err())
}

func TestNoSpaceEndsWithTheNode(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.store.Close())
	s, err := store.Open(m.store.Path(), store.Options{Sync: store.SyncInterval, MaxBytes: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m.FSM, err = New(s, m.owner())
	require.NoError(t, err)
	before := m.Applied()
	require.ErrorIs(t, m.ApplyBatch(history(t, 60))[0].(Result).Err, ErrStopped)
	require.ErrorIs(t, m.Apply(history(t, 0)[0]).(Result).Err, ErrStopped, "nothing after it is applied")
	require.Zero(t, m.stopped.Load(), "there is nothing to look at")
	require.Equal(t, before, m.Applied())
}
