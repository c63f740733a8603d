package raftnode

import (
	"context"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// walkInterval is how often a leader looks for walks that nobody goes on with: those of
// an earlier leader, and of clients that stopped waiting.
const walkInterval = time.Second

// finishWalks goes on with changes of brokers that have not reached all of their
// partitions, while this node leads. Beside a client that does the same it does no
// harm: each entry takes the next partitions.
func (n *Node) finishWalks(ctx context.Context) {
	for {
		var unfinished []int32
		err := n.view(func(tx *store.ReadTx) (err error) {
			unfinished, err = ops.UnfinishedWalks(tx)
			return err
		})
		for _, id := range unfinished {
			if _, failed := n.Propose(ctx, &ops.AdvanceBroker{BrokerID: id}); failed != nil {
				err = failed
			}
		}
		if err != nil && ctx.Err() == nil {
			n.logger.Warn("cannot go on with the change of a broker", "brokers", unfinished, "error", err)
		}
		if wait(ctx, walkInterval) != nil {
			return
		}
	}
}
