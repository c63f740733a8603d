package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/pruner"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

// Intervals of the workers, short for a run of a minute.
const (
	workEvery = 2 * time.Second
	graceFor  = 3 * time.Second // between marking a file and deleting its object
)

// startWorkers lets the background workers run while the process leads, on the
// simulated clock, as `cpnode serve` does.
func (c *cluster) startWorkers(p *process) {
	clean := purger.DefaultFileCleanerConfig()
	clean.Interval, clean.Retention = workEvery, graceFor
	purge := purger.DefaultTopicPurgerConfig()
	purge.Interval, purge.MaxBatchesPerCycle = workEvery, 50
	prune := pruner.DefaultConfig()
	prune.ConsolidationInterval, prune.RetentionInterval, prune.ExpireInterval = workEvery, workEvery, workEvery
	prune.ExpireProducersInterval = workEvery
	remote := pruner.NewRemoteOffsets(prune.MaxPartitions)
	state := func(ctx context.Context, fn func(*store.ReadTx) error) error {
		_, err := p.node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, fn)
		return err
	}
	deps := worker.Deps{Random: c.chance}
	for _, run := range []func(context.Context){
		purger.NewTopicPurger(purge, p.plane, state, deps).Run,
		purger.NewFileCleaner(clean, p.plane, c.objects, deps).Run,
		pruner.NewConsolidationPruner(p.plane, remote, nil, prune, deps).Run,
		pruner.NewRetentionEnforcer(p.plane, prune, deps).Run,
		pruner.NewProducerExpirer(p.plane, prune, deps).Run,
		pruner.NewFenceExpirer(p.plane, prune, deps).Run,
		pruner.NewReplayExpirer(p.plane, prune, deps).Run,
	} {
		p.node.WhileLeading(run)
	}
}

// objects is the object store. It remembers what was deleted, which may be named by
// nothing any more.
type objects struct {
	*objectstore.Memory

	mu      sync.Mutex
	deleted map[string]bool
}

var _ objectstore.Store = (*objects)(nil)

func newObjects() *objects {
	return &objects{Memory: objectstore.NewMemory(nil), deleted: map[string]bool{}}
}

// Delete implements objectstore.Store.
func (o *objects) Delete(ctx context.Context, keys []string) []error {
	errs := o.Memory.Delete(ctx, keys)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, key := range keys {
		if errs[i] == nil {
			o.deleted[key] = true
		}
	}
	return errs
}

// gone are those of the files whose object was deleted.
func (o *objects) gone(files []ops.FileInfo) (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range files {
		if o.deleted[f.ObjectKey] {
			keys = append(keys, f.ObjectKey)
		}
	}
	slices.Sort(keys)
	return keys
}
