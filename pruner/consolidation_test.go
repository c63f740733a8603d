package pruner

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/worker"
)

func remote(topic byte, partition int32, offset int64) ops.PruneLog {
	return ops.PruneLog{TopicID: topicID(topic), Partition: partition, HighestRemoteOffset: offset}
}

// consolidating is a cluster with ten batches in each of four partitions, and a
// pruner that takes two batches a request.
func consolidating(t *testing.T, switchPending func(ops.LogRef) bool) (*cluster, *RemoteOffsets, *ConsolidationPruner) {
	c := newCluster(t)
	c.create(1, 4, nil)
	for p := range int32(4) {
		c.commit(1, p, 10)
	}
	config := DefaultConfig()
	config.ConsolidationMaxBatches, config.PartitionsPerRequest = 2, 3
	offsets := NewRemoteOffsets(10)
	return c, offsets, NewConsolidationPruner(c, offsets, switchPending, config, c.deps)
}

func TestPruneToEachPartitionsOffset(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 99), remote(1, 1, 54), remote(1, 2, 3)}))
	totals, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, PruneTotals{Partitions: 3, BatchesDeleted: 15, BytesDeleted: 1500}, totals)
	require.Equal(t, []int64{100, 50, 0, 0}, []int64{c.logStart(1, 0), c.logStart(1, 1), c.logStart(1, 2), c.logStart(1, 3)})
	require.Equal(t, 5, c.called("prune-diskless-logs"), "one request with all, four with those that have more")
	require.Equal(t, 15.0, c.value("cpnode_consolidation_pruner_deleted_batches_total"))
	require.Equal(t, 1500.0, c.value("cpnode_consolidation_pruner_deleted_bytes_total"))
	require.Equal(t, 3.0, c.value("cpnode_consolidation_pruner_partitions"))

	last := c.lastIndex()
	totals, err = p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, PruneTotals{Partitions: 3}, totals)
	require.Equal(t, last, c.lastIndex(), "nothing to prune, nothing proposed")
}

// A run ends when its interval has passed; each partition had its share by then, and
// the next run comes soon.
func TestPruneIsBoundedAndFair(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 99), remote(1, 1, 99), remote(1, 2, 99), remote(1, 3, 99)}))
	p.config.PartitionsPerRequest, p.config.ConsolidationInterval = 1, 20*time.Second
	p.plane = &slowPlane{cluster: c, each: 10 * time.Second}
	totals, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, PruneTotals{Partitions: 4, BatchesDeleted: 8, BytesDeleted: 800, MoreRemain: true}, totals)
	for partition := range int32(4) {
		require.Equal(t, int64(20), c.logStart(1, partition))
	}

	require.Equal(t, 1.0, c.value("cpnode_consolidation_pruner_work_remains"))
	require.Equal(t, 1.0, c.value("cpnode_consolidation_pruner_saturated_cycles_total"))
	ended, end := context.WithCancel(t.Context())
	end()
	p.Run(ended)
	require.Zero(t, c.value("cpnode_consolidation_pruner_work_remains"), "what remains is for the next leader to say")
	run(t, p)
	for range 3 {
		c.pass(1, 2*time.Second)
	}
	c.waiting(1)
	require.Equal(t, int64(100), c.logStart(1, 3))
	c.pass(1, 19*time.Second)
	require.Equal(t, 20, c.called("prune-diskless-logs"), "with nothing left the next run comes after the interval")
}

// slowPlane takes its time for each request.
type slowPlane struct {
	*cluster
	each   time.Duration
	answer func() // called after each
}

func (s *slowPlane) PruneDisklessLogs(ctx context.Context, r *ops.PruneDisklessLogsRequest, o ...api.Option) (*ops.PruneDisklessLogsResponse, error) {
	s.clock.Advance(s.each)
	answer, err := s.cluster.PruneDisklessLogs(ctx, r, o...)
	if s.answer != nil {
		s.answer()
	}
	return answer, err
}

// A run that is stopped in the middle has not failed, and the next one goes on where
// it was.
func TestPruneStoppedMidCycle(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 99), remote(1, 1, 99)}))
	ctx, cancel := context.WithCancel(t.Context())
	p.plane, p.config = &slowPlane{cluster: c, answer: cancel}, DefaultConfig()
	p.config.PartitionsPerRequest = 1
	p.Run(ctx)
	require.Equal(t, []int64{100, 0}, []int64{c.logStart(1, 0), c.logStart(1, 1)})
	require.Zero(t, c.value("cpnode_consolidation_pruner_errors_total"))
	require.Zero(t, c.value("cpnode_consolidation_pruner_unavailable_total"))
	totals, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, PruneTotals{Partitions: 2, BatchesDeleted: 10, BytesDeleted: 1000}, totals)
}

func TestPruneSkipsPendingSwitches(t *testing.T) {
	c, offsets, p := consolidating(t, func(l ops.LogRef) bool { return l.Partition == 1 })
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 99), remote(1, 1, 99)}))
	totals, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, PruneTotals{Partitions: 1, BatchesDeleted: 10, BytesDeleted: 1000}, totals)
	require.Zero(t, c.logStart(1, 1))
}

// A partition that cannot be pruned leaves the others pruned; the run has failed all
// the same: it says what it did, and counts nothing.
func TestPruneFailureOfOnePartition(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	c.poisoned = ref(1, 1)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 19), remote(1, 1, 19), remote(1, 2, 19), remote(1, 3, 19)}))
	totals, err := p.RunOnce(t.Context())
	require.ErrorIs(t, err, &ops.Error{Code: ops.Internal})
	require.Equal(t, PruneTotals{Partitions: 4, BatchesDeleted: 6, BytesDeleted: 600}, totals)
	require.Equal(t, []int64{20, 0, 20, 20}, []int64{c.logStart(1, 0), c.logStart(1, 1), c.logStart(1, 2), c.logStart(1, 3)})
	require.Equal(t, 1.0, c.value("cpnode_consolidation_pruner_errors_total"))
	require.Zero(t, c.value("cpnode_consolidation_pruner_deleted_batches_total"))
}

func TestPruneWithoutControlPlane(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 99), remote(1, 1, 99), remote(1, 2, 99), remote(1, 3, 99)}))
	c.fail("prune-diskless-logs", ops.Errorf(ops.NoLeader, "none is known"))
	_, err := p.RunOnce(t.Context())
	require.ErrorIs(t, err, &ops.Error{Code: ops.NoLeader})
	require.Equal(t, 1, c.called("prune-diskless-logs"), "no more is asked of a control plane that is not there")
	require.Zero(t, c.value("cpnode_consolidation_pruner_errors_total"))
	require.Zero(t, c.value("cpnode_consolidation_pruner_deleted_batches_total"))
	require.Equal(t, 1.0, c.value("cpnode_consolidation_pruner_unavailable_total"))
}

func TestPruneOnClosedNode(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 99)}))
	require.NoError(t, c.node.Close())
	_, err := p.RunOnce(t.Context())
	require.True(t, worker.Unavailable(err), "%v", err)
	require.Equal(t, 1.0, c.value("cpnode_consolidation_pruner_unavailable_total"))
	require.Zero(t, c.value("cpnode_consolidation_pruner_errors_total"))
}

func TestPruneForgetsPartitionsThatAreGone(t *testing.T) {
	c, offsets, p := consolidating(t, nil)
	require.NoError(t, offsets.Report([]ops.PruneLog{remote(1, 0, 9), remote(2, 0, 99)}))
	_, err := p.RunOnce(t.Context())
	require.NoError(t, err)
	require.True(t, offsets.ConsolidationActiveFor(ref(1, 0)))
	require.False(t, offsets.ConsolidationActiveFor(ref(2, 0)))
	require.Equal(t, int64(10), c.logStart(1, 0))
}

func TestRemoteOffsets(t *testing.T) {
	r := NewRemoteOffsets(2)
	require.NoError(t, r.Report([]ops.PruneLog{remote(1, 1, 5), remote(1, 0, 7), remote(1, 1, 4), remote(2, 0, -1)}))
	require.ErrorIs(t, r.Report([]ops.PruneLog{remote(2, 0, 1), remote(1, 0, 8)}), ErrTooManyPartitions)
	all, err := r.HighestRemoteOffsets(t.Context())
	require.NoError(t, err)
	require.Equal(t, []ops.PruneLog{remote(1, 0, 8), remote(1, 1, 5)}, all)
	r.Gone(ref(1, 0))
	require.NoError(t, r.Report([]ops.PruneLog{remote(2, 0, 0)}))
	require.True(t, r.ConsolidationActiveFor(ref(2, 0)))
	require.False(t, r.ConsolidationActiveFor(ref(1, 0)))
}
