package raftnode

import (
	"context"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// historyRetry is how long the setting of the history waits for a cluster that does not
// take it now.
const historyRetry = time.Second

// keepHistory brings this node's setting of how many events are kept into the state,
// where all nodes go by it, while this node leads. A cluster below the feature level that
// has events gets it once it was raised.
func (n *Node) keepHistory(ctx context.Context) {
	want := uint64(n.config.Settings.EventHistory)
	for {
		if n.fsm.FeatureLevel() >= ops.EventsFeatureLevel {
			var kept uint64
			err := n.viewAnswered(ctx)(func(tx *store.ReadTx) error { kept = tx.EventHistory(); return nil })
			if err == nil && kept != want {
				_, err = n.Propose(ctx, &ops.SetEventHistory{Events: want})
			}
			if err == nil {
				return
			}
		}
		if wait(ctx, historyRetry) != nil {
			return
		}
	}
}
