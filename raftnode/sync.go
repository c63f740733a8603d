package raftnode

import (
	"time"

	"github.com/cpnode/cpnode/store"
)

// How the state is synced: see Config.StateSync.
const (
	StateSyncAlways   = "always"
	StateSyncInterval = "interval"
)

// stateOptions are how the node opens its state file.
func (c *Config) stateOptions() store.Options {
	o := store.Options{Child: c.Child, MaxBytes: c.StateMaxBytes, BootID: c.Surroundings.BootID, Watch: c.Surroundings.State}
	if c.StateSync == StateSyncInterval {
		o.Sync = store.SyncInterval
	}
	return o
}

// syncState takes sync points, as long as the node runs: after an interval, or when
// due says that there were many transactions. Where nothing was changed there is
// nothing to do. What cannot be synced has stopped the node already.
func (n *Node) syncState() {
	tick := time.NewTicker(n.config.StateSyncInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.due:
		case <-n.ctx.Done():
			return
		}
		if n.store.Unrecorded() == 0 {
			continue
		}
		start := time.Now()
		if err := n.fsm.Sync(); err != nil {
			n.logger.Warn("the state was not synced", "error", err)
			continue
		}
		n.metrics.syncTime.Observe(time.Since(start).Seconds())
	}
}

// committed is fsm.Owner's Committed.
func (n *Node) committed() {
	if n.store.Unrecorded() < uint64(n.config.StateSyncMaxTransactions) {
		return
	}
	select {
	case n.due <- struct{}{}:
	default: // a sync point is on its way
	}
}
