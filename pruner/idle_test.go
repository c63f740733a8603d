package pruner

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// With batches, producers, fences, replays, remote offsets and reports in the state,
// none of them due, an hour of all workers adds nothing to the log.
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
	}
	for _, w := range workers {
		run(t, w)
	}
	c.pass(len(workers), 2*time.Minute) // what was due at first is done
	c.waiting(len(workers))
	require.Equal(t, int64(50), c.logStart(1, 0))
	last := c.lastIndex()
	for range 3600 {
		c.pass(len(workers), time.Second)
	}
	c.waiting(len(workers))
	require.Equal(t, last, c.lastIndex())
	require.Equal(t, 61.0, c.value("cpnode_consolidation_pruner_cycles_total")-1)
	require.Greater(t, c.called("enforce-retention"), 50)
}
