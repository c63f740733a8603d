package main

import (
	"context"
	"errors"
	"time"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

const tieringInterval = 100 * time.Millisecond

// tier keeps the view of remote storage fresh, and uploads rolled segments of the partitions
// that this broker leads, until ctx ends.
func (b *broker) tier(ctx context.Context) {
	for ctx.Err() == nil {
		for _, ref := range b.known.all() {
			reg, ok := b.known.registration(ref)
			if !ok || !ops.ConsolidationEnabledFor(reg.TopicConfig) {
				continue
			}
			if err := b.tierPartition(ctx, ref, reg.Leader == b.id); err != nil && ctx.Err() == nil {
				b.logger.Debug("tiering", "error", err)
			}
		}
		_ = pause(ctx, tieringInterval) // the error is ctx's, which the loop looks at
	}
}

func (b *broker) tierPartition(ctx context.Context, ref ops.LogRef, leads bool) error {
	if err := b.view.Refresh(ctx, ref); err != nil || !leads || !b.view.Copying(ref) {
		return err
	}
	files, err := b.toUpload(ref)
	for _, f := range files {
		if err == nil { // behind a gap nobody would trust it
			err = b.remote.Upload(ctx, ref, f)
		}
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, b.view.Refresh(ctx, ref))
}

// toUpload opens the rolled segments that hold committed records which remote storage does
// not list yet. No lock is held while they are copied.
func (b *broker) toUpload(ref ops.LogRef) (files []*segmentlog.SegmentFile, err error) {
	next := b.view.HighestOffset(ref) + 1
	err = b.gate.WithLog(ref, func(log switchover.LocalLog) error {
		segments := log.Segments()
		for _, s := range segments[:len(segments)-1] {
			if s.End <= next || s.End > log.HighWatermark() {
				continue
			}
			f, err := log.(*segmentlog.Log).OpenSegment(s.Base)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		return nil
	})
	return files, err
}
