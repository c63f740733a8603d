package raftnode

import (
	"fmt"

	"github.com/cpnode/cpnode/ops"
)

// ErrNotLeader is wrapped by what Propose, View and Forward answer when another
// node leads, or none: nothing was proposed. Its code is NO_LEADER.
var ErrNotLeader = fmt.Errorf("%w", &ops.Error{Code: ops.NoLeader, Message: "this node is not the leader"})

var errShuttingDown = &ops.Error{Code: ops.ShuttingDown, Message: "this node is shutting down"}

// corruptError is the answer of a node that has stopped on err.
func corruptError(err error) error {
	return &ops.Error{Code: ops.NodeCorrupt, Message: err.Error()}
}

func unknown(format string, args ...any) error {
	return ops.Errorf(ops.OutcomeUnknown, format, args...)
}
