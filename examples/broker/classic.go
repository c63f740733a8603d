package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// classicFetch is a follower's: it copies the leader's log, in one leader epoch.
type classicFetch struct {
	broker      *broker
	ref         ops.LogRef
	leader      int32
	leaderEpoch int32
}

// run goes on until ctx ends, or the gate lets the follower go at the seal.
func (c classicFetch) run(ctx context.Context) (afterwards func()) {
	agreed := false
	for ctx.Err() == nil {
		if c.broker.gate.LeavesClassic(c.ref) {
			return func() { c.broker.gate.Evicted(c.ref) }
		}
		err := c.broker.points.hold(ctx, pointClassicFetch)
		if err == nil && !agreed {
			agreed, err = c.agree(ctx)
		}
		if err == nil && agreed {
			err = c.fetch(ctx)
		}
		if err != nil && ctx.Err() == nil {
			if errors.Is(err, segmentlog.ErrStorage) {
				c.broker.LogDirFailed(c.ref, err)
			}
			c.broker.logger.Debug("classic fetch", "leader", c.leader, "epoch", c.leaderEpoch, "error", err)
			_ = pause(ctx, retryPause) // the error is ctx's, which the loop looks at
		}
	}
	return nil
}

// agree cuts off one end of this log that the leader does not have: of the last leader epoch
// in it, all records or those that the leader has no more. It is true when nothing is left to cut.
func (c classicFetch) agree(ctx context.Context) (bool, error) {
	var last switchover.EpochStart
	var end int64
	err := c.broker.gate.WithLog(c.ref, func(log switchover.LocalLog) error {
		if epochs := log.Epochs(); len(epochs) > 0 {
			last, end = epochs[len(epochs)-1], log.EndOffset()
		}
		return nil
	})
	if err != nil || end == 0 {
		return err == nil, err
	}
	answer, err := call[endOfEpochAnswer](ctx, c.broker.known.endpoint(c.leader), verbEndOfEpoch,
		endOfEpochRequest{Ref: c.ref, Epoch: last.Epoch, LeaderEpoch: c.leaderEpoch})
	switch {
	case err != nil:
		return false, err
	case answer.Epoch != last.Epoch:
		return false, c.broker.gate.TruncateFollower(c.ref, c.leaderEpoch, last.Start)
	case answer.End < end:
		return false, c.broker.gate.TruncateFollower(c.ref, c.leaderEpoch, answer.End)
	}
	return true, nil
}

// fetch asks once for what follows the end of this log.
func (c classicFetch) fetch(ctx context.Context) error {
	status, err := c.broker.gate.Status(c.ref)
	if err != nil {
		return err
	}
	answer, err := call[fetchAnswer](ctx, c.broker.known.endpoint(c.leader), verbFetch, fetchRequest{
		Ref: c.ref, Offset: status.End, Replica: c.broker.id, BrokerEpoch: c.broker.epoch.Load(), LeaderEpoch: c.leaderEpoch,
	})
	if err != nil {
		return err
	}
	return c.broker.gate.AppendFetched(c.ref, c.leaderEpoch, answer.Batches, answer.HighWatermark)
}

// serveFetch answers a follower; without records it waits for some.
func (b *broker) serveFetch(ctx context.Context, r fetchRequest) (fetchAnswer, error) {
	result, err := b.gate.Read(ctx, switchover.ReadRequest{
		Ref: r.Ref, Offset: r.Offset, MaxBytes: fetchBytes, MinBytes: 1, MaxWait: fetchWait,
		Replica: r.Replica, BrokerEpoch: r.BrokerEpoch, LeaderEpoch: r.LeaderEpoch,
	})
	return fetchAnswer{Batches: result.Batches, HighWatermark: result.HighWatermark}, err
}

// serveEndOfEpoch says up to where this leader has records of an epoch.
func (b *broker) serveEndOfEpoch(_ context.Context, r endOfEpochRequest) (a endOfEpochAnswer, err error) {
	if !b.known.leads(r.Ref, b.id) || !b.known.hasRole(r.Ref, r.LeaderEpoch) {
		return a, fmt.Errorf("leader epoch %d: %w", r.LeaderEpoch, switchover.ErrFencedLeaderEpoch)
	}
	err = b.gate.WithLog(r.Ref, func(log switchover.LocalLog) error {
		a.Epoch, a.End = log.(*segmentlog.Log).EndOfEpoch(r.Epoch)
		return nil
	})
	return a, err
}
