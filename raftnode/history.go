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
// where all nodes go by it. It is what a node does first when it leads; a cluster below
// the feature level that has events gets it once it was raised.
func (n *Node) keepHistory(ctx context.Context) {
	for ctx.Err() == nil {
		if n.fsm.FeatureLevel() >= ops.EventsFeatureLevel {
			if _, err := n.Propose(ctx, &ops.SetEventHistory{Events: uint64(n.config.Settings.EventHistory)}); err == nil {
				return
			}
		}
		select {
		case <-time.After(historyRetry):
		case <-ctx.Done():
		}
	}
}
