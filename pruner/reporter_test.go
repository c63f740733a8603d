package pruner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func (c *cluster) remoteStart(topic byte, partition int32) int64 {
	c.t.Helper()
	answer, err := c.GetCrossTierLogStart(c.t.Context(), &ops.GetCrossTierLogStartRequest{Requests: []ops.LogRef{ref(topic, partition)}})
	require.NoError(c.t, err)
	return answer.Responses[0].RemoteLogStartOffset
}

func reporting(t *testing.T) (*cluster, *CrossTierReporter) {
	c := newCluster(t)
	c.create(1, 3, nil)
	config := DefaultConfig()
	config.MaxPartitions = 2
	return c, NewCrossTierReporter(c, config, c.deps)
}

func TestReportCoalesces(t *testing.T) {
	c, r := reporting(t)
	run(t, r)
	c.waiting(1)
	for _, offset := range []int64{5, 9, 7} {
		require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), offset))
	}
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 1), 0), "0 is a meaningful value")
	require.Equal(t, 2.0, c.value("cpnode_cross_tier_reporter_pending_partitions"))
	require.Equal(t, int64(-1), c.remoteStart(1, 0))
	c.pass(1, time.Second)
	c.waiting(1)
	require.Equal(t, []int64{9, 0, -1}, []int64{c.remoteStart(1, 0), c.remoteStart(1, 1), c.remoteStart(1, 2)})
	require.Equal(t, 1, c.called("advance-cross-tier-log-start"))
	require.Equal(t, 2.0, c.value("cpnode_cross_tier_reporter_reported_partitions_total"))

	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 9))
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 8))
	require.Zero(t, r.Pending(), "only advances are reported")
	c.pass(1, time.Second)
	c.waiting(1)
	require.Equal(t, 1, c.called("advance-cross-tier-log-start"))
}

// What was not taken is kept, and so is what advanced meanwhile.
func TestReportFailure(t *testing.T) {
	c, r := reporting(t)
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 5))
	c.fail("advance-cross-tier-log-start", ops.Errorf(ops.Internal, "a fault"))
	_, err := r.RunOnce(t.Context())
	require.ErrorIs(t, err, &ops.Error{Code: ops.Internal})
	require.Equal(t, 1, r.Pending())
	require.Equal(t, 1.0, c.value("cpnode_cross_tier_reporter_errors_total"))
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 4))
	c.fail("advance-cross-tier-log-start", nil)
	totals, err := r.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ReportTotals{Partitions: 1}, totals)
	require.Equal(t, int64(5), c.remoteStart(1, 0))
	require.Zero(t, r.Pending())
}

// An offset that comes while the one before is being reported is not lost.
func TestReportAdvancesMeanwhile(t *testing.T) {
	c, r := reporting(t)
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 5))
	reports := r.snapshot()
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 6))
	require.NoError(t, r.report(t.Context(), reports, &ReportTotals{}))
	require.Equal(t, 1, r.Pending())
	_, err := r.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(6), c.remoteStart(1, 0))
}

func TestReportIsBounded(t *testing.T) {
	c, r := reporting(t)
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 5))
	require.True(t, r.AdvanceRemoteLogStart(ref(9, 0), 5))
	require.False(t, r.AdvanceRemoteLogStart(ref(1, 1), 5))
	require.True(t, r.AdvanceRemoteLogStart(ref(1, 0), 6), "a partition that has room keeps it")
	require.Equal(t, 1.0, c.value("cpnode_cross_tier_reporter_refused_partitions_total"))
	totals, err := r.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ReportTotals{Partitions: 1, Unknown: 1}, totals)
	require.Zero(t, r.Pending(), "what the control plane does not know is dropped")
	for _, p := range []int32{1, 2} {
		require.True(t, r.AdvanceRemoteLogStart(ref(1, p), 5))
	}
	_, err = r.RunOnce(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, len(r.stored), 2)
	require.Equal(t, []int64{6, 5, 5}, []int64{c.remoteStart(1, 0), c.remoteStart(1, 1), c.remoteStart(1, 2)})
}
