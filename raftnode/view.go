package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// Level is what a read may miss.
type Level int

const (
	// Linearizable reads see every write that was answered before they began, on
	// any node. Only the leader answers them.
	Linearizable Level = iota
	// Stale reads see the state as this node has it: on the leader, with all that it
	// has answered.
	Stale
)

// String is the level as clients write it.
func (l Level) String() string {
	if l == Stale {
		return "stale"
	}
	return "linearizable"
}

// ReadOptions say what a read asks for.
type ReadOptions struct {
	Level Level
	// MinIndex makes a stale read wait until the state holds the entry at that
	// index: a write's Result.Index gives a read of one's own writes.
	MinIndex uint64
	// MaxStaleness makes a stale read wait until the state is no older; 0 is no
	// bound.
	MaxStaleness time.Duration
}

// ReadInfo says what a read saw.
type ReadInfo struct {
	AppliedIndex uint64 // of the state that was read
	// Staleness is the time since this node's state held all that its leader had
	// reported committed, Unknown when there was no report yet. On the leader it is 0
	// unless its state is behind its own commit index.
	Staleness time.Duration
}

// Unknown is the staleness of a node that has not heard from a leader.
const Unknown = time.Duration(-1)

// staleRetry is how often a read that waits for a fresher state looks again.
const staleRetry = 5 * time.Millisecond

// View calls fn with a state that satisfies the options. Errors: ErrNotLeader;
// *ops.Error with NOT_CAUGHT_UP when the wait took ReadTimeout, with
// SHUTTING_DOWN or NODE_CORRUPT; ctx's; fn's.
func (n *Node) View(ctx context.Context, o ReadOptions, fn func(*store.ReadTx) error) (ReadInfo, error) {
	info, err := n.awaitLevel(ctx, o)
	n.metrics.read(o.Level, err)
	if err != nil {
		return ReadInfo{}, err
	}
	return info, n.view(func(tx *store.ReadTx) error {
		info.AppliedIndex = tx.Meta().AppliedIndex
		return fn(tx)
	})
}

// awaitLevel returns once this node's state is good enough.
func (n *Node) awaitLevel(ctx context.Context, o ReadOptions) (info ReadInfo, err error) {
	if err := n.serving(); err != nil {
		return info, err
	}
	if err := n.stateHere(); err != nil {
		return info, err
	}
	wait, cancel := context.WithTimeout(ctx, n.config.ReadTimeout)
	defer cancel()
	if o.Level == Linearizable {
		err = n.awaitConfirmed(wait)
	} else {
		info.Staleness, err = n.awaitFresh(wait, o)
	}
	if err != nil {
		err = n.readError(ctx, err)
	}
	return info, err
}

// view reads the state; damage found on the way stops the node.
func (n *Node) view(fn func(*store.ReadTx) error) error {
	err := n.store.View(fn)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return corruptError(n.fail(err))
	case errors.Is(err, store.ErrClosed):
		return errShuttingDown
	}
	return err
}

// awaitConfirmed returns once the state holds every write that was answered
// before the call.
func (n *Node) awaitConfirmed(ctx context.Context) error {
	r, err := n.confirmer.lead(ctx)
	if err != nil {
		return err
	}
	if err := n.fsm.Wait(ctx, n.lastSeen(r.commit)); err != nil {
		return err
	}
	if !n.holds(r.leads) {
		return ErrNotLeader
	}
	return nil
}

// awaitFresh returns once the state has MinIndex and is no older than
// MaxStaleness. Before its first entry, which every cluster begins with, a state
// knows nothing of the cluster, and would say that all its topics are unknown.
func (n *Node) awaitFresh(ctx context.Context, o ReadOptions) (time.Duration, error) {
	least := max(1, o.MinIndex)
	if n.leading() != nil {
		// Nobody who wrote through this node expects to miss it here.
		least = max(least, n.fsm.Answered())
	}
	if err := n.fsm.Wait(ctx, least); err != nil {
		return 0, err
	}
	for {
		stale := n.Staleness()
		if o.MaxStaleness == 0 || stale != Unknown && stale <= o.MaxStaleness {
			return stale, nil
		}
		select {
		case <-time.After(staleRetry):
		case <-ctx.Done():
			return stale, ctx.Err()
		}
	}
}

// Staleness is how old this node's state is at most; see ReadInfo.
func (n *Node) Staleness() time.Duration {
	if n.leading() != nil && n.fresh.reported(n.raft.CommitIndex()) {
		return 0
	}
	return n.fresh.staleness()
}

// caughtUp says whether the state holds everything up to a commit index that a
// leader reported. Only entries that this node knows to be committed count: what
// else its log holds there may be something else.
func (n *Node) caughtUp(commit uint64) bool {
	return n.raft.CommitIndex() >= commit && n.fsm.Applied() >= n.lastSeen(commit)
}

// lastSeen is the last entry at or below index that the state must have to hold all
// up to index. What a record of the state was made at, or received with, may be an
// entry of raft's own that the log does not have any more: nothing more is to come
// up to there.
func (n *Node) lastSeen(index uint64) uint64 {
	seen := n.log.gaps.lastSeen(index)
	if seen <= n.fsm.Applied() {
		return seen
	}
	if at, err := fsm.RecordedPosition(n.store); err == nil && seen <= at.Index {
		return n.fsm.Applied()
	}
	return seen
}

// readError makes an answer of what ended a wait; ctx is the caller's own.
func (n *Node) readError(ctx context.Context, err error) error {
	var answer *ops.Error
	switch {
	case errors.As(err, &answer):
		return err
	case n.Err() != nil:
		return corruptError(n.Err())
	case ctx.Err() != nil:
		return fmt.Errorf("read: %w", ctx.Err())
	default:
		return ops.Errorf(ops.NotCaughtUp, "this node's state at index %d was not new enough within %s", n.fsm.Applied(), n.config.ReadTimeout)
	}
}
