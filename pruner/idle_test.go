package pruner

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/purger/objectstore"
)

// With batches, producers, fences, replays, remote offsets and reports in the state,
// none of them due, an hour of all workers, those of package purger too, adds nothing to
// the log.
func TestIdleHourProposesNothing(t *testing.T) {
	c := newCluster(t)
	c.create(1, 8, map[string]string{"retention.bytes": "1000"})
	for p := range int32(8) {
		c.commit(1, p, 10)
	}
	c.produce(3)
	_, err := c.IsSafeToDeleteFile(t.Context(), &ops.IsSafeToDeleteFileRequest{ObjectKey: "x", Fence: true})
	require.NoError(t, err)
	offsets := NewRemoteOffsets(10)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 49), remote(1, 1, 5), remote(1, 2, 99)}))
	config := DefaultConfig()
	reporter := NewCrossTierReporter(c, config, c.deps)
	require.True(t, reporter.AdvanceRemoteLogStart(ref(1, 0), 0))

	workers := []interface{ Run(context.Context) }{
		NewConsolidationPruner(c, offsets, nil, config, c.deps), NewRetentionEnforcer(c, config, c.deps), reporter,
		NewProducerExpirer(c, config, c.deps), NewFenceExpirer(c, config, c.deps), NewReplayExpirer(c, config, c.deps),
		purger.NewTopicPurger(purger.DefaultTopicPurgerConfig(), c, nil, c.deps),
		purger.NewFileCleaner(purger.DefaultFileCleanerConfig(), c, objectstore.NewMemory(c.clock.Now), c.deps),
	}
	for _, w := range workers {
		run(t, w)
	}
	for range 60 { // what was due at first is done: pruned, cleaned, and the keys' fences ended
		c.pass(len(workers), time.Minute)
	}
	c.waiting(len(workers))
	require.Equal(t, int64(50), c.logStart(1, 0))
	cycles := func() (n []float64) {
		for _, name := range []string{"consolidation_pruner", "topic_purger", "file_cleaner"} {
			n = append(n, c.value("cpnode_"+name+"_cycles_total"))
		}
		return n
	}
	last, before := c.lastIndex(), cycles()
	for range 3600 {
		c.pass(len(workers), time.Second)
	}
	c.waiting(len(workers))
	require.Equal(t, last, c.lastIndex())
	require.Equal(t, []float64{before[0] + 60, before[1] + 60, before[2] + 30}, cycles())
	require.Greater(t, c.called("enforce-retention"), 50)
}
