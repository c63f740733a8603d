package switchover

import (
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
)

// Errors of the gate's methods, for errors.Is.
var (
	// ErrUnknownPartition: the gate was not told of the partition, or it was removed.
	ErrUnknownPartition = errors.New("switchover: unknown partition")
	// ErrNotLeaderOrFollower: this broker cannot serve that now; the client is to ask again,
	// after a look at who leads.
	ErrNotLeaderOrFollower = errors.New("switchover: not leader or follower")
	// ErrOffline: wrapped in an error that gives the reason, which is also ErrNotLeaderOrFollower.
	ErrOffline = errors.New("switchover: partition is offline")
	// ErrFencedLeaderEpoch: the caller's leader epoch is not that of the partition.
	ErrFencedLeaderEpoch = errors.New("switchover: leader epoch is not the current one")
	// ErrOffsetOutOfRange: below the log start or beyond the end.
	ErrOffsetOutOfRange = errors.New("switchover: offset out of range")
	// ErrClosed: the gate was closed.
	ErrClosed = errors.New("switchover: closed")
	// ErrNotAboveSeal: consolidated records begin at the seal, classic ones end there.
	ErrNotAboveSeal = errors.New("switchover: records are on the wrong side of the seal")
)

// offlineError is ErrOffline and ErrNotLeaderOrFollower.
type offlineError struct {
	ref    ops.LogRef
	reason string
}

func (e *offlineError) Error() string {
	return fmt.Sprintf("switchover: partition %s-%d is offline: %s", e.ref.TopicID, e.ref.Partition, e.reason)
}

func (e *offlineError) Is(target error) bool {
	return target == ErrOffline || target == ErrNotLeaderOrFollower
}
