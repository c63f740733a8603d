package fsm

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/store"
)

// PositionSink is the sink of a snapshot that is a record: nothing is written to it.
type PositionSink interface {
	raft.SnapshotSink
	// Position is where raft says that the snapshot is.
	Position() Position
}

// Snapshot takes hold of the present state. raft applies nothing meanwhile, so
// syncing is left to Persist. Without space for what is held there is none: raft
// takes a snapshot to have all that was answered, and would never bring it again.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	f.applying.Lock()
	defer f.applying.Unlock()
	if err := f.flush(); err != nil {
		return nil, err
	}
	s, err := f.point()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// point is the state as it is committed, between two transactions. It needs
// applying, and that no transaction is open.
func (f *FSM) point() (s *snapshot, err error) {
	s = &snapshot{fsm: f}
	s.Point, err = f.store.Point(func(m store.Meta) { s.at = f.positionAt(m) })
	return s, err
}

// snapshot is a state and where it is in the log.
type snapshot struct {
	*store.Point
	fsm *FSM
	at  Position
}

// Persist makes the state the one to recover from, at the position of sink, which
// must be a PositionSink.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	to, ok := sink.(PositionSink)
	if !ok {
		return errors.New("this snapshot can only be recorded, not written")
	}
	return s.fsm.settle(s.commit(to.Position()))
}

// settle lets go of what is held once the FSM has stopped beside its open
// transaction, for which whoever wants a point of the state would wait.
func (f *FSM) settle(err error) error {
	if f.Err() != nil {
		f.applying.Lock()
		defer f.applying.Unlock()
		f.held.rollback()
	}
	return err
}

func (s *snapshot) commit(at Position) error {
	err := s.Commit(func(last []byte) ([]byte, error) { return further(at, last) })
	if errors.Is(err, store.ErrSync) {
		return s.fsm.stop(err)
	}
	return err
}

// Sync makes the present state the one to recover from, or without space for what is
// held the state without it: letting go of the point before may make room. Any
// goroutine may call it.
func (f *FSM) Sync() error {
	s, err := f.flushedPoint()
	if err != nil {
		return err
	}
	defer s.Release()
	return f.settle(s.commit(s.at))
}

// Stream takes hold of the present state, to be sent: with all that was answered, or
// without what it finds no space for. Whoever wants the state while a transaction is
// open must not wait for it: what ends the transaction may be what waits behind.
func (f *FSM) Stream() (*store.Snapshot, error) {
	f.applying.Lock()
	defer f.applying.Unlock()
	if err := f.flush(); err != nil && !store.NoSpace(err) {
		return nil, err
	}
	return f.store.Snapshot()
}

func (f *FSM) flushedPoint() (*snapshot, error) {
	f.applying.Lock()
	defer f.applying.Unlock()
	if err := f.flush(); err != nil && !store.NoSpace(err) {
		return nil, err
	}
	return f.point()
}

// Received is a state that another node has sent, as a reader for Restore: it is
// not read.
type Received struct {
	*store.Receiver
	At Position
}

// Read implements io.Reader, and always fails.
func (*Received) Read([]byte) (int, error) {
	return 0, errors.New("a received state is installed, not read")
}

// Close implements io.Closer. It removes what was not installed.
func (r *Received) Close() error {
	r.Abort()
	return nil
}

// Restore replaces the state by a Received one, unless the state holds all of it
// already. raft's own index of a snapshot does not say so: it also counts entries
// that the state never sees. Of any other reader, a stream, only the beginning is
// read: the state must hold all of it. What cannot be installed stops the FSM: the
// entries after it must not meet the old state.
func (f *FSM) Restore(r io.ReadCloser) error {
	f.applying.Lock()
	defer f.applying.Unlock()
	if err := f.flush(); err != nil {
		return err
	}
	if err := f.restore(r); err != nil {
		return f.stop(fmt.Errorf("snapshot: %w", err))
	}
	return nil
}

func (f *FSM) restore(r io.ReadCloser) error {
	if wrapped, ok := r.(raft.ReadCloserWrapper); ok {
		r = wrapped.WrappedReadCloser()
	}
	if received, ok := r.(*Received); ok {
		return f.install(received)
	}
	info, err := store.PeekStream(bufio.NewReader(r))
	if err == nil && info.Index > f.Applied() {
		err = fmt.Errorf("it holds index %d, and the state only %d", info.Index, f.Applied())
	}
	return err
}

// install also takes the sender's word for the position when the state itself is
// not needed: raft goes on from there.
func (f *FSM) install(r *Received) error {
	if reached := max(r.Info().Index, f.Applied()); reached > r.At.Index {
		r.At.Received = reached
	}
	if r.Info().Index <= f.Applied() {
		f.moveTo(r.At)
		s, err := f.point()
		if err != nil {
			return err
		}
		defer s.Release()
		return s.commit(r.At)
	}
	if err := f.store.Install(r.Receiver, r.At.encode()); err != nil {
		return err
	}
	f.moveTo(r.At)
	return f.load()
}

// moveTo notes that the entries after at come next.
func (f *FSM) moveTo(at Position) {
	f.passing.Lock()
	defer f.passing.Unlock()
	f.passed = at
}
