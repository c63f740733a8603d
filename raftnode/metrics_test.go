package raftnode

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// sample is the value of a gauge or counter, or the count of a histogram; label
// is the value of its one label.
func sample(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || label != "" && m.GetLabel()[0].GetValue() != label {
				continue
			}
			switch {
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			case m.Counter != nil:
				return m.Counter.GetValue()
			default:
				return float64(m.Histogram.GetSampleCount())
			}
		}
	}
	require.Fail(t, "no such metric", "%s %s", name, label)
	return 0
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := single(t, func(c *Config) {
		c.Registerer = registry
		c.SnapshotThreshold, c.SnapshotInterval = 1, 10*time.Millisecond
	})
	r := mustCommit(t, n, "a", 0)
	mustCommit(t, n, "b", 1)
	_, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
	require.NoError(t, err)
	for _, want := range []struct {
		name, label string
		value       float64
	}{
		{"cpnode_proposals_total", "done", 3},
		{"cpnode_entry_bytes", "", 3},
		{"cpnode_leader_confirmations_total", "confirmed", 1},
		{"cpnode_raft_leader", "", 1},
		{"cpnode_raft_has_leader", "", 1},
		{"cpnode_applied_index", "", float64(r.Index + 1)},
		{"cpnode_staleness_seconds", "", 0},
		{"cpnode_raft_last_contact_seconds", "", 0},
		{"cpnode_node_failed", "", 0},
		{"cpnode_topics", "", 1},
		{"cpnode_logs", "live", 4},
		{"cpnode_batches", "", 2},
		{"cpnode_files", "uploaded", 2},
	} {
		require.Equal(t, want.value, sample(t, registry, want.name, want.label), want.name)
	}
	for _, positive := range [][2]string{
		{"cpnode_raft_term", ""}, {"cpnode_raft_log_duration_seconds", "append"}, {"cpnode_apply_duration_seconds", ""},
		{"cpnode_store_file_bytes", "state"}, {"cpnode_store_file_bytes", "raft_log"},
	} {
		require.Positive(t, sample(t, registry, positive[0], positive[1]), positive[0])
	}
	eventually(t, func() bool { return sample(t, registry, "cpnode_snapshot_duration_seconds", "") > 0 }, "a snapshot")

	// The same registry takes one node at a time.
	other := testConfig(t, "n2")
	other.Registerer = registry
	_, err = Open(other)
	require.ErrorContains(t, err, "metrics: ")
	require.Equal(t, 2.0, sample(t, registry, "cpnode_batches", ""), "the first is still there")
	require.NoError(t, n.Close())
	require.NoError(t, openNode(t, other).Close())
}
