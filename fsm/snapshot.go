package fsm

import (
	"bufio"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/store"
)

// Snapshot takes hold of the present state. raft applies nothing meanwhile, so
// the copying is left to Persist.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	s, err := f.store.Snapshot()
	if err != nil {
		return nil, err
	}
	return snapshot{s}, nil
}

type snapshot struct{ *store.Snapshot }

// Persist writes the state to sink as one stream.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	_, err := s.WriteTo(sink)
	return err
}

// Restore replaces the state by that of a stream, unless the state holds all of
// it already. raft's own index of a snapshot does not say so: it also counts
// entries that the state never sees. A stream that cannot be installed stops the
// FSM: the entries after it must not meet the old state.
func (f *FSM) Restore(r io.ReadCloser) error {
	if err := f.Err(); err != nil {
		return err
	}
	if err := f.install(bufio.NewReader(r)); err != nil {
		return f.stop(fmt.Errorf("snapshot: %w", err))
	}
	return nil
}

func (f *FSM) install(r *bufio.Reader) error {
	info, err := store.PeekStream(r)
	if err != nil || info.Index <= f.Applied() {
		return err
	}
	if err := f.store.Install(r); err != nil {
		return err
	}
	return f.load()
}
