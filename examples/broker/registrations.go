package main

import (
	"context"
	"errors"
	"slices"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// followRegistrations tells the gate what the control plane says, in the order of its log,
// until ctx ends. What it said before this broker has registered is only noted, and the
// outcome applied then: a role of the past must not be taken with the log of today. A
// broker with many partitions applies on several goroutines.
func (b *broker) followRegistrations(ctx context.Context) error {
	present := false
	for event, err := range b.plane.Watch(ctx, 0) {
		if err != nil {
			return err
		}
		changed, gone := b.known.note(&event)
		for _, ref := range gone {
			if err := b.remove(ref); err != nil {
				return err
			}
		}
		if !present {
			if present = b.known.registered(b.id, b.incarnation); !present {
				continue
			}
			changed = b.known.all()
		}
		for _, ref := range changed {
			if err := b.apply(ref); err != nil {
				return err
			}
		}
		b.upToDate.Store(true)
	}
	return nil
}

// apply has the gate take the role that a registration gives this broker.
func (b *broker) apply(ref ops.LogRef) error {
	reg, ok := b.known.registration(ref)
	if !ok {
		return nil // deleted by the same event
	}
	if slices.Contains(reg.Replicas, b.id) && !b.disk.holds(ref) {
		log, err := b.disk.open(ref)
		if err != nil {
			return err
		}
		if err := b.gate.Open(ref, log); err != nil {
			return err
		}
	}
	b.points.reach(pointAfterBegin, reg.Pending() && reg.Leader == b.id)
	b.gate.Apply(reg)
	b.known.tookRole(ref, reg.LeaderEpoch)
	return nil
}

// remove forgets a partition, which the gate may not have been told of.
func (b *broker) remove(ref ops.LogRef) error {
	if _, _, err := b.gate.Remove(ref); err != nil && !errors.Is(err, switchover.ErrUnknownPartition) {
		return err
	}
	b.view.Forget(ref)
	return b.disk.remove(ref)
}

// steppedPlane is the control plane, with the points before and after what the gate commits.
type steppedPlane struct{ broker *broker }

var _ switchover.ControlPlane = steppedPlane{}

// CommitSeal implements switchover.ControlPlane.
func (s steppedPlane) CommitSeal(ctx context.Context, r *ops.CommitSealRequest, opts ...api.Option) (answer *ops.CommitSealResponse, err error) {
	ref := ops.LogRef{TopicID: r.Requests[0].TopicID, Partition: r.Requests[0].Partition}
	err = s.step(ctx, ref, pointBeforeSeal, pointAfterSeal, func() (bool, error) {
		if answer, err = s.broker.plane.CommitSeal(ctx, r, opts...); err != nil {
			return false, err
		}
		return answer.Responses[0].Error == ops.None, nil
	})
	return answer, err
}

// CommitPrefixInRemoteStorage implements switchover.ControlPlane.
func (s steppedPlane) CommitPrefixInRemoteStorage(ctx context.Context, r *ops.CommitPrefixInRemoteStorageRequest, opts ...api.Option) (answer *ops.CommitPrefixInRemoteStorageResponse, err error) {
	ref := ops.LogRef{TopicID: r.Requests[0].TopicID, Partition: r.Requests[0].Partition}
	err = s.step(ctx, ref, pointBeforeFlag, pointAfterFlag, func() (bool, error) {
		if answer, err = s.broker.plane.CommitPrefixInRemoteStorage(ctx, r, opts...); err != nil {
			return false, err
		}
		return answer.Responses[0].Error == ops.None, nil
	})
	return answer, err
}

// AlterPartition implements switchover.ControlPlane.
func (s steppedPlane) AlterPartition(ctx context.Context, r *ops.AlterPartitionRequest, opts ...api.Option) (*ops.AlterPartitionResponse, error) {
	return s.broker.plane.AlterPartition(ctx, r, opts...)
}

// step runs commit, which says whether it was granted, between two points.
func (s steppedPlane) step(ctx context.Context, ref ops.LogRef, before, after string, commit func() (bool, error)) error {
	leads := s.broker.known.leads(ref, s.broker.id)
	s.broker.points.reach(before, leads)
	if err := s.broker.points.hold(ctx, before); err != nil {
		return err
	}
	granted, err := commit()
	s.broker.points.reach(after, leads && granted)
	return err
}
