package fsm

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

var (
	// ErrStopped is wrapped by the error of everything that reaches an FSM after
	// an entry or a snapshot that it could not carry out.
	ErrStopped = errors.New("the state machine has stopped")
	// ErrApplied is the answer to an entry that the state held already: its
	// result was given when it was applied, and is not kept.
	ErrApplied = errors.New("the entry was applied before")
)

// Result is the answer to one entry, in raft's future.
type Result struct {
	Index uint64
	// Value is what the command's Apply returned: the operation's result, or an
	// *ops.Error when the command was refused and nothing was changed.
	Value any
	// Err says that there is no Value: ErrApplied, or ErrStopped.
	Err error
}

// Owner is told what the FSM cannot settle itself.
type Owner struct {
	// Stopped is called once, with an error that wraps ErrStopped, when an entry or a
	// snapshot cannot be carried out. It must not wait for the FSM's caller.
	Stopped func(error)
	// NoSpace is called when entries cannot be applied for want of space, with why. It
	// returns after a pause, true to try again, false when the node is closing. When
	// they are applied at last, it is called with nil.
	NoSpace func(error) (again bool)
}

// FSM implements raft.BatchingFSM over a store. Apply, ApplyBatch, Snapshot and
// Restore are called by raft, one at a time; the other methods by anyone.
type FSM struct {
	store        *store.Store
	owner        Owner
	onCheckpoint func(index uint64, digest store.Digest)

	passing sync.Mutex
	passed  Position // the last entry that was applied or skipped

	fatal   atomic.Pointer[error]
	applied atomic.Uint64
	level   atomic.Uint64 // feature level of the state

	mu    sync.Mutex
	moved chan struct{} // closed when applied moves or the FSM stops; nil while nobody waits
}

var _ raft.BatchingFSM = (*FSM)(nil)

// New is an FSM over s, which goes on from the newest record of s.
func New(s *store.Store, owner Owner) (_ *FSM, err error) {
	f := &FSM{store: s, owner: owner}
	if f.passed, err = RecordedPosition(s); err != nil {
		return nil, err
	}
	return f, f.load()
}

// OnCheckpoint sets what is told of each checkpoint-digest entry once it is
// applied: its index and the digest of the state at it. It is set before the first
// entry, and must not wait for the FSM's caller.
func (f *FSM) OnCheckpoint(fn func(index uint64, digest store.Digest)) { f.onCheckpoint = fn }

// load takes the applied index from the state, which must not be one that a newer
// release has to carry on.
func (f *FSM) load() error {
	return f.store.View(func(tx *store.ReadTx) error {
		if err := ops.Supported(tx.Meta().FeatureLevel); err != nil {
			return err
		}
		f.level.Store(tx.Meta().FeatureLevel)
		f.advance(tx.Meta().AppliedIndex)
		return nil
	})
}

// Apply applies one entry.
func (f *FSM) Apply(entry *raft.Log) any { return f.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch applies entries in one transaction and answers each with a Result,
// configuration entries included, which only move the index.
func (f *FSM) ApplyBatch(entries []*raft.Log) []any {
	answers := make([]any, len(entries))
	err := f.Err()
	if err == nil {
		err = f.carryOut(entries, answers)
	}
	if err != nil {
		for i, entry := range entries {
			answers[i] = Result{Index: entry.Index, Err: err}
		}
		return answers
	}
	f.advance(entries[len(entries)-1].Index)
	f.reportCheckpoints(answers)
	return answers
}

// reportCheckpoints tells of what is in the state for good.
func (f *FSM) reportCheckpoints(answers []any) {
	for _, a := range answers {
		r := a.(Result)
		if c, ok := r.Value.(ops.Checkpoint); ok && f.onCheckpoint != nil {
			f.onCheckpoint(r.Index, c.Digest)
		}
	}
}

// carryOut applies entries, however long it takes until there is room for them: one
// left out would make a silently different replica.
func (f *FSM) carryOut(entries []*raft.Log, answers []any) error {
	waited := false
	for {
		at, err := f.applyAll(entries, answers)
		if !store.NoSpace(err) {
			if waited {
				f.owner.NoSpace(nil)
			}
			if err != nil {
				return f.stop(fmt.Errorf("entry %d: %w", at, err))
			}
			return nil
		}
		if waited = true; !f.owner.NoSpace(err) {
			err = fmt.Errorf("%w: entry %d was not applied: %w", ErrStopped, at, err)
			f.end(err)
			return err
		}
	}
}

// applyAll fills answers; at is the entry that an error is about. bbolt panics on
// some kinds of damage: that is an error like any other here.
func (f *FSM) applyAll(entries []*raft.Log, answers []any) (at uint64, err error) {
	at = entries[0].Index
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if entries[len(entries)-1].Index <= f.applied.Load() {
		for i, entry := range entries {
			answers[i] = Result{Index: entry.Index, Err: ErrApplied}
		}
		f.pass(entries)
		return at, nil
	}
	err = f.store.Update(func(tx *store.WriteTx) error {
		for i, entry := range entries {
			at = entry.Index
			if entry.Index <= tx.Meta().AppliedIndex {
				answers[i] = Result{Index: entry.Index, Err: ErrApplied}
				continue
			}
			value, err := applyOne(tx, entry)
			if err != nil {
				return err
			}
			answers[i] = Result{Index: entry.Index, Value: value}
			tx.SetApplied(entry.Index, entry.Term)
		}
		f.level.Store(tx.Meta().FeatureLevel)
		// Still within the transaction: a point sees both or neither.
		f.pass(entries)
		return nil
	})
	return at, err
}

func applyOne(tx *store.WriteTx, entry *raft.Log) (any, error) {
	switch entry.Type {
	case raft.LogConfiguration: // raft keeps configurations itself
		return nil, nil
	case raft.LogCommand:
		e, err := ops.Decode(entry.Data)
		if err != nil {
			return nil, err
		}
		return ops.Apply(tx, e)
	default:
		return nil, fmt.Errorf("entry of type %s does not belong here", entry.Type)
	}
}

// stop records the first failure and tells the owner.
func (f *FSM) stop(err error) error {
	err = fmt.Errorf("%w: %w", ErrStopped, err)
	if f.end(err) {
		f.owner.Stopped(err)
	}
	return f.Err()
}

// end lets nothing more in, and says whether it is the first to do so.
func (f *FSM) end(err error) bool {
	first := f.fatal.CompareAndSwap(nil, &err)
	if first {
		f.wake()
	}
	return first
}

// Err is why the FSM has stopped, nil while it runs.
func (f *FSM) Err() error {
	if err := f.fatal.Load(); err != nil {
		return *err
	}
	return nil
}

// Applied is the index of the last entry in the state.
func (f *FSM) Applied() uint64 { return f.applied.Load() }

// FeatureLevel is the level of the state: what operations may be logged.
func (f *FSM) FeatureLevel() uint64 { return f.level.Load() }

func (f *FSM) advance(index uint64) {
	if index > f.applied.Load() {
		f.applied.Store(index)
		f.wake()
	}
}

func (f *FSM) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// Wait returns once the state holds the entry at index, or with ctx's error, or
// with why the FSM has stopped.
func (f *FSM) Wait(ctx context.Context, index uint64) error {
	for f.applied.Load() < index {
		moved := f.next() // before looking again, so that no move is missed
		if f.applied.Load() >= index {
			return nil
		}
		if err := f.Err(); err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// next is closed when the applied index moves the next time, or the FSM stops.
func (f *FSM) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.moved
}
