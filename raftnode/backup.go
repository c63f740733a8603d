package raftnode

import (
	"errors"
	"io"
	"sync"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// maxBackups is how many may be read at once: each can hold pages of the state, or
// a copy of it, until its reader is done.
const maxBackups = 2

// Backup is the state of a node as one stream, of a moment: it has every write that
// the node had applied by then. A reader that is slow gets the rest from a copy, so
// that it does not hold up the state.
type Backup struct {
	state   *sending
	release func()
}

// Index is that of the last log entry in the state.
func (b *Backup) Index() uint64 { return b.state.Index() }

// Size is the length of the stream in bytes.
func (b *Backup) Size() int64 { return b.state.Size() }

// WriteTo writes the stream, once.
func (b *Backup) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{b.state}) // not by its WriteTo, which knows no delays
}

// Release lets go of the state. It is idempotent.
func (b *Backup) Release() { b.release() }

// Backup takes hold of the present state of this node, which need not lead. It
// copies nothing; the caller must release it, and before that Close does not return.
// Errors: *ops.Error with OVERLOADED, SHUTTING_DOWN or NODE_CORRUPT.
func (n *Node) Backup() (*Backup, error) {
	if err := n.serving(); err != nil {
		return nil, err
	}
	if err := n.stateHere(); err != nil {
		return nil, err
	}
	if n.backups.Add(1) > maxBackups {
		n.backups.Add(-1)
		return nil, ops.Errorf(ops.Overloaded, "%d backups are being read", maxBackups)
	}
	s, err := n.fsm.Stream()
	if err != nil {
		n.backups.Add(-1)
		if errors.Is(err, store.ErrClosed) {
			return nil, errShuttingDown
		}
		return nil, corruptError(err)
	}
	state := newSending(s)
	return &Backup{state, sync.OnceFunc(func() {
		_ = state.Close() // always nil
		n.backups.Add(-1)
	})}, nil
}
