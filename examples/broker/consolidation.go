package main

import (
	"context"
	"errors"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// consolidation copies diskless records to the local log, from where they are tiered.
type consolidation struct {
	broker  *broker
	ref     ops.LogRef
	rebuild bool // the local log is short of the seal
}

func (c consolidation) run(ctx context.Context) (afterwards func()) {
	restarted := !c.rebuild
	for ctx.Err() == nil {
		copied, err := 0, error(nil)
		if restarted {
			copied, err = c.copy(ctx)
		} else {
			err = c.restart(ctx)
			restarted = err == nil
		}
		if err != nil && ctx.Err() == nil {
			if errors.Is(err, segmentlog.ErrStorage) {
				c.broker.LogDirFailed(c.ref, err)
			}
			c.broker.logger.Debug("consolidation", "error", err)
		}
		if err != nil || copied == 0 {
			_ = pause(ctx, 2*retryPause) // the error is ctx's, which the loop looks at
		}
	}
	return nil
}

// copy copies once what follows the end of the local log.
func (c consolidation) copy(ctx context.Context) (batches int, err error) {
	status, err := c.broker.gate.Status(c.ref)
	if err != nil {
		return 0, err
	}
	found, _, err := c.broker.wal.Read(ctx, c.ref, status.End, fetchBytes)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return len(found), c.broker.gate.AppendConsolidated(c.ref, found)
}

// restart lets the local log begin at the seal, with what remote storage says of before.
func (c consolidation) restart(ctx context.Context) error {
	if err := c.broker.view.Refresh(ctx, c.ref); err != nil {
		return err
	}
	start, epochs := int64(0), []switchover.EpochStart{}
	for i, s := range c.broker.view.Segments(c.ref) {
		if i == 0 {
			start = s.Base
		}
		for _, e := range s.Epochs {
			if n := len(epochs); n == 0 || epochs[n-1].Epoch < e.Epoch {
				epochs = append(epochs, e)
			}
		}
	}
	return c.broker.gate.Rebuild(c.ref, start, epochs)
}
