package switchover

import (
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
)

// ErrNoMove: the partition is in no directory move, or in one already.
var ErrNoMove = errors.New("switchover: no such directory move")

// MoveState is how far a step of a directory move got.
type MoveState int

// The states: while it is copying the next step follows at once, while it waits after a
// pause. Promoted ends the move.
const (
	MoveCopying MoveState = iota
	MoveWaiting
	MovePromoted
)

// StartMove begins to move a partition to another directory: future is an empty log there,
// which MoveStep fills. It is the gate's until the move ends.
func (g *Gate) StartMove(ref ops.LogRef, future LocalLog) error {
	return g.alone(ref, func(p *partition) error {
		if p.future != nil {
			return fmt.Errorf("%w: %s-%d is being moved already", ErrNoMove, ref.TopicID, ref.Partition)
		}
		p.future = future
		return nil
	})
}

// CancelMove ends a move that was not promoted; the future log is the caller's to remove.
func (g *Gate) CancelMove(ref ops.LogRef) (future LocalLog, err error) {
	err = g.alone(ref, func(p *partition) error {
		if p.future == nil {
			return ErrNoMove
		}
		future, p.future = p.future, nil
		return nil
	})
	return future, err
}

// MoveStep copies about maxBytes to the future log, or, when it has all that the current log
// has, promotes it: from then on it is the partition's log, and the one it replaced is the
// caller's to close and remove. A future log that holds a record of a prefix that is in
// remote storage waits: it is never promoted, whatever the current log holds by then. Steps
// of one partition come one at a time. Storage errors are those of either log.
func (g *Gate) MoveStep(ref ops.LogRef, maxBytes int) (state MoveState, replaced LocalLog, err error) {
	copied := false
	err = g.write(ref, func(p *partition) (err error) {
		copied, err = p.copyToFuture(maxBytes)
		return err
	})
	if err != nil || copied {
		return MoveCopying, nil, err
	}
	highest, copying := g.deps.Remote.HighestOffset(ref), g.deps.Remote.Copying(ref)
	at(g.hooks.promoting)
	err = g.alone(ref, func(p *partition) (err error) {
		state, replaced, err = p.promote(highest, copying)
		return err
	})
	return state, replaced, err
}

// copyToFuture copies what is next. The caller holds mu shared.
func (p *partition) copyToFuture(maxBytes int) (copied bool, err error) {
	if p.future == nil {
		return false, ErrNoMove
	}
	from, limit := p.future.EndOffset(), p.log.EndOffset()
	if start := p.log.LocalLogStartOffset(); from < start {
		base, err := firstOffset(p.log)
		if err != nil {
			return false, err
		}
		if from < base { // what the current log does not hold any more, or never held, is skipped
			return true, p.future.RestartAt(base, min(base, p.log.LogStartOffset()), p.log.Epochs())
		}
		from = start
	}
	if from >= limit {
		return false, nil
	}
	if seal := p.reg.Seal(); from < seal {
		limit = min(limit, seal)
	} else if from == seal {
		// A segment of the future log that held both sides of the seal could not be deleted.
		if err := p.future.Roll(); err != nil {
			return false, err
		}
	}
	batches, err := p.log.Read(from, limit, maxBytes)
	if err == nil && len(batches) == 0 { // the next batch spans the seal
		batches, err = p.log.Read(from, p.log.EndOffset(), 1)
	}
	if err != nil {
		return false, err
	}
	return true, p.future.AppendBatches(batches)
}

// firstOffset is where the first batch of a log begins, which may be before the local log start.
func firstOffset(log LocalLog) (int64, error) {
	start := log.LocalLogStartOffset()
	first, err := log.Read(start, log.EndOffset(), 1)
	if err != nil || len(first) == 0 {
		return start, err
	}
	return first[0].BaseOffset, nil
}

// promote swaps the logs if the future one has all that the current one has, and no prefix
// that may not be read locally. The caller holds mu alone.
func (p *partition) promote(highest int64, copying bool) (MoveState, LocalLog, error) {
	switch {
	case p.future == nil:
		return MoveCopying, nil, ErrNoMove
	case p.future.EndOffset() < p.log.EndOffset():
		return MoveCopying, nil, nil
	}
	if p.reg.State == ops.StatePrefixInRemoteStorage {
		if !p.keepsPrefix(copying) {
			if err := deleteCovered(p.future, p.reg.Seal(), highest); err != nil {
				return MoveWaiting, nil, err
			}
		}
		if holdsPrefix(p.future, p.reg.Seal()) {
			return MoveWaiting, nil, nil
		}
	}
	if err := p.readyFuture(); err != nil {
		return MoveWaiting, nil, err
	}
	replaced := p.log
	p.log, p.future = p.future, nil
	return MovePromoted, replaced, nil
}

// readyFuture gives the future log what was not copied with the records.
func (p *partition) readyFuture() error {
	if err := p.future.SetHighWatermark(p.log.HighWatermark()); err != nil {
		return err
	}
	if err := p.future.SetLogStart(p.log.LogStartOffset()); err != nil {
		return err
	}
	if p.reg.State == ops.StateClassic {
		return p.future.Unseal()
	}
	return p.future.Seal()
}
