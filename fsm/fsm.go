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
	// Held is called when entries are applied and answered, and their transaction is
	// kept open for more; urgent says that somebody waits to read them. The owner then
	// calls Flush, from another goroutine, after a moment or at once. Without Held each
	// batch of entries is a transaction.
	Held func(urgent bool)
	// Committed, unless nil, is called after each transaction, whoever ended it. It must
	// not wait for the FSM's caller.
	Committed func()
	// Cluster, unless nil, is the id of the cluster, the same on all of its nodes: each
	// transaction puts it in the state.
	Cluster func() [16]byte
}

// FSM implements raft.BatchingFSM over a store. Apply, ApplyBatch, Snapshot and
// Restore are called by raft, one at a time; the other methods by anyone.
type FSM struct {
	store        *store.Store
	owner        Owner
	onCheckpoint func(index uint64, digest store.Digest)

	applying sync.Mutex // held by what changes the state, or must see all of it
	waiting  bool       // for space, with applying unlocked
	held     held

	passing sync.Mutex
	passed  Position // the last entry that was applied or skipped

	fatal   atomic.Pointer[error]
	reached atomic.Uint64 // last entry that was answered
	applied atomic.Uint64 // last entry that readers see; behind reached while some are held
	level   atomic.Uint64 // feature level of the state
	events  atomic.Uint64 // number of the last event that was answered
	shown   atomic.Uint64 // number of the last event that readers see

	mu    sync.Mutex
	moved chan struct{} // closed when an index moves or the FSM stops; nil while nobody waits
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
		f.events.Store(tx.Meta().LastEventSeq)
		f.shown.Store(tx.Meta().LastEventSeq)
		f.reached.Store(tx.Meta().AppliedIndex)
		f.advance(tx.Meta().AppliedIndex)
		return nil
	})
}

// Apply applies one entry.
func (f *FSM) Apply(entry *raft.Log) any { return f.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch applies entries and answers each with a Result, configuration entries
// included, which only move the index. An answered entry is durable in the log;
// Wait and Flush make it visible in the state.
func (f *FSM) ApplyBatch(entries []*raft.Log) []any {
	f.applying.Lock()
	defer f.applying.Unlock()
	answers := make([]any, len(entries))
	err := f.Err()
	if err == nil {
		err = f.carryOut(entries, answers)
	}
	if err != nil {
		for i, entry := range entries {
			answers[i] = Result{Index: entry.Index, Err: err}
		}
	}
	return answers
}

// carryOut applies entries to the open transaction, and commits it when it is full.
func (f *FSM) carryOut(entries []*raft.Log, answers []any) error {
	if entries[len(entries)-1].Index <= f.reached.Load() {
		for i, entry := range entries {
			answers[i] = Result{Index: entry.Index, Err: ErrApplied}
		}
		f.pass(entries)
		return nil
	}
	f.held.add(entries)
	if err := f.insist(answers); err != nil {
		return err
	}
	f.pass(entries)
	f.reached.Store(max(f.reached.Load(), entries[len(entries)-1].Index))
	f.wake()
	if len(f.held.entries) > 0 {
		f.owner.Held(false)
	}
	return nil
}

// insist brings in what is held, however long it takes until there is room: an
// entry left out would make a silently different replica. While it waits others may
// take points, which can be what makes room, but not commit.
func (f *FSM) insist(answers []any) error {
	for waited := false; ; waited = true {
		err := f.attempt(func() error {
			if err := f.bring(answers); err != nil || f.owner.Held != nil && !f.held.full() {
				return err
			}
			return f.commit()
		})
		if !store.NoSpace(err) {
			if waited {
				f.owner.NoSpace(nil)
			}
			return err
		}
		f.waiting = true
		f.applying.Unlock()
		again := f.owner.NoSpace(err)
		f.applying.Lock()
		f.waiting = false
		if !again {
			err = fmt.Errorf("%w: entry %d was not applied: %w", ErrStopped, f.held.entries[0].Index, err)
			f.end(err)
			return err
		}
	}
}

// Flush makes all that was answered visible to readers. After an error for which
// store.NoSpace holds it may be tried again, and nothing is lost.
func (f *FSM) Flush() error {
	f.applying.Lock()
	defer f.applying.Unlock()
	return f.flush()
}

// flush needs applying.
func (f *FSM) flush() error {
	if err := f.Err(); err != nil {
		return err
	}
	if len(f.held.entries) == 0 || f.waiting {
		return nil
	}
	return f.attempt(func() error {
		if err := f.bring(nil); err != nil {
			return err
		}
		return f.commit()
	})
}

// Close flushes, or gives up what a stopped FSM holds: the log has it.
func (f *FSM) Close() error {
	f.applying.Lock()
	defer f.applying.Unlock()
	defer f.held.rollback()
	if f.Err() != nil {
		return nil
	}
	return f.flush()
}

// attempt does something to the open transaction. What fails is rolled back, to
// begin again with all that is held, and stops the FSM unless it is for want of
// space.
func (f *FSM) attempt(do func() error) error {
	err := f.guard(do)
	if err == nil {
		return nil
	}
	f.held.rollback()
	if store.NoSpace(err) {
		return err
	}
	return f.stop(err)
}

// guard makes an error of a panic: bbolt panics on some kinds of damage.
func (f *FSM) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// bring applies what is held and not in the open transaction yet. answers are those
// of the last entries that are held.
func (f *FSM) bring(answers []any) (err error) {
	h := &f.held
	if h.tx == nil {
		if h.tx, err = f.store.Begin(); err != nil {
			return err
		}
		if f.owner.Cluster != nil {
			h.tx.SetClusterID(f.owner.Cluster())
		}
		h.checkpoints, h.done = h.checkpoints[:0], 0
	}
	for ; h.done < len(h.entries); h.done++ {
		r, err := applyOne(h.tx, h.entries[h.done])
		if err != nil {
			return fmt.Errorf("entry %d: %w", h.entries[h.done].Index, err)
		}
		if i := h.done - (len(h.entries) - len(answers)); i >= 0 {
			answers[i] = r
		}
		if c, ok := r.Value.(ops.Checkpoint); ok {
			h.checkpoints = append(h.checkpoints, checkpoint{r.Index, c.Digest})
		}
	}
	f.level.Store(h.tx.Meta().FeatureLevel)
	f.events.Store(h.tx.Meta().LastEventSeq)
	return nil
}

// commit ends the open transaction and lets readers see it.
func (f *FSM) commit() error {
	h := &f.held
	tx := h.tx
	h.tx = nil
	events := tx.Meta().LastEventSeq
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("entries %d to %d: %w", h.entries[0].Index, h.entries[len(h.entries)-1].Index, err)
	}
	f.shown.Store(events)
	f.advance(h.entries[len(h.entries)-1].Index)
	for _, c := range h.checkpoints {
		if f.onCheckpoint != nil {
			f.onCheckpoint(c.index, c.digest)
		}
	}
	h.forget()
	if f.owner.Committed != nil {
		f.owner.Committed()
	}
	return nil
}

// applyOne applies an entry, or skips one that the state holds already.
func applyOne(tx *store.WriteTx, entry *raft.Log) (Result, error) {
	r := Result{Index: entry.Index}
	if entry.Index <= tx.Meta().AppliedIndex {
		r.Err = ErrApplied
		return r, nil
	}
	var err error
	if r.Value, err = carryOutOne(tx, entry); err == nil {
		err = tx.SetApplied(entry.Index, entry.Term)
	}
	return r, err
}

func carryOutOne(tx *store.WriteTx, entry *raft.Log) (any, error) {
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

// End lets nothing more in: an entry was not given to the FSM, and what follows it
// would make a silently different replica.
func (f *FSM) End(without uint64, err error) {
	f.end(fmt.Errorf("%w: entry %d was not applied: %w", ErrStopped, without, err))
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

// Applied is the index of the last entry in the state that readers see.
func (f *FSM) Applied() uint64 { return f.applied.Load() }

// Answered is the index of the last entry that was answered: Applied follows.
func (f *FSM) Answered() uint64 { return f.reached.Load() }

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

// Wait returns once readers see the entry at index, or with ctx's error, or with
// why the FSM has stopped.
func (f *FSM) Wait(ctx context.Context, index uint64) error {
	for f.applied.Load() < index {
		moved := f.next() // before looking again, so that no move is missed
		if f.applied.Load() >= index {
			return nil
		}
		if err := f.Err(); err != nil {
			return err
		}
		if f.reached.Load() >= index && f.owner.Held != nil {
			f.owner.Held(true)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Events is the number of the last event (store.Event) among the entries that were
// answered: while it stays, so do all topics, brokers and registrations.
func (f *FSM) Events() uint64 { return f.events.Load() }

// AwaitEvents returns once readers see an event with a number above seq, or with ctx's
// error, or with why the FSM has stopped. Unlike Wait it lets held entries take their
// time: nobody waits for what a watcher reads.
func (f *FSM) AwaitEvents(ctx context.Context, seq uint64) error {
	for {
		moved := f.next()
		if f.shown.Load() > seq {
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
}

// next is closed when an index moves the next time, or the FSM stops.
func (f *FSM) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return f.moved
}
