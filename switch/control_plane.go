package switchover

import (
	"context"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

// ControlPlane is what the gate asks of the control plane. Both *api.Embedded and
// *api.Client are one.
type ControlPlane interface {
	CommitSeal(context.Context, *ops.CommitSealRequest, ...api.Option) (*ops.CommitSealResponse, error)
	CommitPrefixInRemoteStorage(context.Context, *ops.CommitPrefixInRemoteStorageRequest, ...api.Option) (*ops.CommitPrefixInRemoteStorageResponse, error)
	AlterPartition(context.Context, *ops.AlterPartitionRequest, ...api.Option) (*ops.AlterPartitionResponse, error)
}

var (
	_ ControlPlane = (*api.Embedded)(nil)
	_ ControlPlane = (*api.Client)(nil)
)

// Brokers says what the control plane knows of brokers. It is asked under locks, answers from
// memory and does not call the gate.
type Brokers interface {
	// Epoch is the present epoch of a broker, and whether it is registered and not fenced.
	Epoch(broker int32) (epoch int64, alive bool)
}
