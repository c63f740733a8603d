package raftnode

import (
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
)

// ErrNotLeader is wrapped by what Propose, View and Forward answer when another
// node leads, or none: nothing was proposed. Its code is NO_LEADER.
var ErrNotLeader = fmt.Errorf("%w", &ops.Error{Code: ops.NoLeader, Message: "this node is not the leader"})

// errRemoved is why a node is not ready that the cluster goes on without.
var errRemoved = errors.New("this node was removed from the cluster; to join again, empty its directory and start it anew")

var errNoReport = errors.New("the answer holds no report")

var errShuttingDown = &ops.Error{Code: ops.ShuttingDown, Message: "this node is shutting down"}

// corruptError is the answer of a node that has stopped on err.
func corruptError(err error) error {
	return &ops.Error{Code: ops.NodeCorrupt, Message: err.Error()}
}

func unknown(format string, args ...any) error {
	return ops.Errorf(ops.OutcomeUnknown, format, args...)
}
