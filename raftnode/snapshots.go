package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/store"
)

// sendTimeout bounds how long a snapshot that is sent keeps pages of the state
// from being used again.
const sendTimeout = 10 * time.Second

// snapshotStore is raft's snapshot store on the records of the state. There is one
// snapshot, the newest record; taking one copies nothing. Sending it streams the
// present state, which may be newer. A snapshot from another node is received into
// the file that will be the state file; while one is, or is put in place, another is
// refused.
type snapshotStore struct {
	store *store.Store
	// instead is the position of a state that is missing, or nil.
	instead func() *fsm.Position
	// stream takes hold of the present state, to be sent.
	stream func() (*store.Snapshot, error)

	mu       sync.Mutex
	received *receivedSnapshot // complete, and not restored yet
	given    string            // id of the last one that was given up
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

// receivedSnapshot is a snapshot from another node.
type receivedSnapshot struct {
	meta     raft.SnapshotMeta
	receiver *store.Receiver
}

func metaOf(p fsm.Position) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: snapshotID(p.Index, p.Term), Index: p.Index, Term: p.Term,
		Configuration: p.Configuration, ConfigurationIndex: p.ConfigurationIndex,
	}
}

func snapshotID(index, term uint64) string { return fmt.Sprintf("%d-%d", term, index) }

// List returns the newest record, or nothing while there is none that says who the
// members are. The size is not known before the snapshot is opened.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	p, err := s.position()
	if err != nil || p.Index == 0 {
		return nil, err
	}
	return []*raft.SnapshotMeta{metaOf(p)}, nil
}

func (s *snapshotStore) position() (fsm.Position, error) {
	if s.instead != nil {
		if p := s.instead(); p != nil {
			return *p, nil
		}
	}
	return fsm.RecordedPosition(s.store)
}

// openRetry is the pause before an error of Open: raft tries again at once while it hands
// leadership over.
const openRetry = 10 * time.Millisecond

// Open returns the received snapshot of that id, for Restore, or else the present
// state as a stream, at the newest record: that is the one meant, even if it has
// gone on since it was listed.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.open(id)
	if err != nil {
		time.Sleep(openRetry)
	}
	return meta, r, err
}

func (s *snapshotStore) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if r, err := s.take(id); err != nil {
		return nil, nil, err
	} else if r != nil {
		return &r.meta, &fsm.Received{Receiver: r.receiver, At: r.position()}, nil
	}
	// The record first: the state must not be older.
	p, err := fsm.RecordedPosition(s.store)
	if err != nil {
		return nil, nil, err
	}
	if p.Index == 0 {
		return nil, nil, errors.New("there is no snapshot yet")
	}
	state, err := s.stream()
	if err != nil {
		return nil, nil, err
	}
	meta := metaOf(p)
	meta.Size = state.Size()
	return meta, newSending(state), nil
}

// take hands out the received snapshot of that id, once: nil when there is none.
func (s *snapshotStore) take(id string) (*receivedSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == s.given {
		s.given = ""
		return nil, errGivenUp
	}
	if s.received == nil || s.received.meta.ID != id {
		return nil, nil
	}
	r := s.received
	s.received = nil
	return r, nil
}

func (r *receivedSnapshot) position() fsm.Position {
	return fsm.Position{Index: r.meta.Index, Term: r.meta.Term, Configuration: r.meta.Configuration, ConfigurationIndex: r.meta.ConfigurationIndex}
}

// sending is a state on its way to another node.
type sending struct {
	*store.Snapshot
	late   *time.Timer
	failed chan error
}

func newSending(state *store.Snapshot) *sending {
	s := &sending{Snapshot: state, failed: make(chan error, 1)}
	s.late = time.AfterFunc(sendTimeout, func() {
		if err := state.Detach(); err != nil {
			// Without room for the rest the transfer ends: the state matters more.
			s.failed <- err
			state.Release()
		}
	})
	return s
}

// Read implements io.Reader.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Snapshot.Read(p)
	if errors.Is(err, store.ErrClosed) {
		select {
		case failed := <-s.failed:
			err = failed
		default:
		}
	}
	return n, err
}

// WriteTo implements io.WriterTo.
func (s *sending) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{s}) // without this method
}

// Close implements io.Closer.
func (s *sending) Close() error {
	s.late.Stop()
	s.Release()
	return nil
}

// Create returns a sink: for a snapshot of this node's state, whose Persist takes
// the position from it, or for one that another node sends, which is written to it.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("snapshot version %d is not supported", version)
	}
	return &snapshotSink{to: s, meta: raft.SnapshotMeta{
		Version: version, ID: snapshotID(index, term), Index: index, Term: term, Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// errGivenUp is why a snapshot is not there that raft has received: see receive.
var errGivenUp = errors.New("the snapshot was given up for another state that was received")

// receive begins to receive a state. A received one that nobody has opened is given up:
// raft waits to restore it while the state machine waits for a state that was missing.
func (s *snapshotStore) receive() (*store.Receiver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.received; r != nil {
		r.receiver.Abort()
		s.received, s.given = nil, r.meta.ID
	}
	return s.store.Receive()
}

// snapshotSink implements fsm.PositionSink. It is used by one goroutine.
type snapshotSink struct {
	to       *snapshotStore
	meta     raft.SnapshotMeta
	receiver *store.Receiver // nil for a snapshot of this node
}

var _ fsm.PositionSink = (*snapshotSink)(nil)

// ID implements raft.SnapshotSink.
func (s *snapshotSink) ID() string { return s.meta.ID }

// Position implements fsm.PositionSink.
func (s *snapshotSink) Position() fsm.Position {
	r := receivedSnapshot{meta: s.meta}
	return r.position()
}

// Write receives the next bytes of a stream.
func (s *snapshotSink) Write(p []byte) (n int, err error) {
	if s.receiver == nil {
		if s.receiver, err = s.to.receive(); err != nil {
			return 0, err
		}
	}
	n, err = s.receiver.Write(p)
	s.meta.Size += int64(n)
	return n, err
}

// Close checks and syncs what was received, and keeps it for Open.
func (s *snapshotSink) Close() error {
	if s.receiver == nil {
		return nil
	}
	if _, err := s.receiver.Finish(); err != nil {
		return err
	}
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.received, s.to.given = &receivedSnapshot{s.meta, s.receiver}, ""
	return nil
}

// Cancel implements raft.SnapshotSink.
func (s *snapshotSink) Cancel() error {
	if s.receiver != nil {
		s.receiver.Abort()
	}
	return nil
}
