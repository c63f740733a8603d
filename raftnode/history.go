package raftnode

import (
	"context"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// historyRetry is how long the setting of the history waits for a cluster that does not
// take it now.
const historyRetry = time.Second

// keepHistory brings this node's setting of how many events are kept into the state,
// where all nodes go by it, while this node leads. A cluster below the feature level that
// has events gets it once it was raised.
func (n *Node) keepHistory(ctx context.Context) {
	for {
		if n.fsm.FeatureLevel() >= ops.EventsFeatureLevel {
			if _, err := n.Propose(ctx, &ops.SetEventHistory{Events: uint64(n.config.Settings.EventHistory)}); err == nil {
				return
			}
		}
		if wait(ctx, historyRetry) != nil {
			return
		}
	}
}
