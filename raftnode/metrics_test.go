package raftnode

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// find is the value of a gauge or counter, or the count of a histogram; label is the
// value of its first label.
func find(g prometheus.Gatherer, name, label string) (value float64, ok bool) {
	families, err := g.Gather()
	if err != nil {
		return 0, false
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || label != "" && m.GetLabel()[0].GetValue() != label {
				continue
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

// sample is what find finds.
func sample(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	value, ok := find(g, name, label)
	require.True(t, ok, "no such metric: %s %s", name, label)
	return value
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := single(t, func(c *Config) {
		c.Registerer = registry
		c.SnapshotThreshold, c.SnapshotInterval = 1, 10*time.Millisecond
		c.RaftLogStore = LogStoreWAL
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
		{"cpnode_reads_total", "linearizable", 1},
		{"cpnode_reads_total", "stale", 0},
		{"cpnode_members", "voter", 1},
		{"cpnode_members", "learner", 0},
		{"cpnode_failures_tolerated", "", 0},
		{"cpnode_proposals_in_flight", "", 0},
		{"cpnode_proposals_in_flight_bytes", "", 0},
		{"cpnode_disk_min_free_bytes", "", 256 << 20},
		{"cpnode_snapshot_failures_total", "", 0},
		{"cpnode_state_replaced_timestamp_seconds", "", 0},
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
		{"cpnode_store_file_bytes", "state"}, {"cpnode_store_file_bytes", "raft_log"}, {"cpnode_store_file_bytes", "raft_wal"},
	} {
		require.Positive(t, sample(t, registry, positive[0], positive[1]), positive[0])
	}
	eventually(t, func() bool { return sample(t, registry, "cpnode_snapshot_duration_seconds", "") > 0 }, "a snapshot")
	require.Positive(t, sample(t, registry, "cpnode_snapshot_last_success_timestamp_seconds", ""))

	// The same registry takes one node at a time.
	other := testConfig(t, "n2")
	other.Registerer = registry
	_, err = Open(other)
	require.ErrorContains(t, err, "metrics: ")
	require.Equal(t, 2.0, sample(t, registry, "cpnode_batches", ""), "the first is still there")
	require.NoError(t, n.Close())
	require.NoError(t, openNode(t, other).Close())
}

// The leader, whichever it is, shows the others by name: how far each is behind, and
// who does not answer.
func TestMetricsOfPeers(t *testing.T) {
	registries := map[string]*prometheus.Registry{}
	c := startCluster(t, func(c *Config) {
		registries[c.NodeID] = prometheus.NewRegistry()
		c.Registerer = registries[c.NodeID]
	})
	shown := func(name, label string, is func(float64) bool) bool {
		showing, ok := 0, false
		for _, r := range registries {
			if v, found := find(r, name, label); found {
				showing++
				ok = is(v)
			}
		}
		return showing == 1 && ok
	}
	is := func(want float64) func(float64) bool { return func(v float64) bool { return v == want } }
	eventually(t, func() bool { return shown("cpnode_failures_tolerated", "", is(1)) }, "one node of three may fail")
	at := c.followers()[0]
	gone := c.configs[at].NodeID
	eventually(t, func() bool {
		return shown("cpnode_peer_up", gone, is(1)) && shown("cpnode_peer_lag_entries", gone, is(0)) &&
			shown("cpnode_peer_log_margin_entries", gone, func(v float64) bool { return v >= 0 })
	}, "the other is up to date")
	for _, r := range registries {
		require.Equal(t, 3.0, sample(t, r, "cpnode_members", "voter"))
	}

	c.crash(at)
	delete(registries, gone)
	eventually(t, func() bool {
		return slices.ContainsFunc(c.nodes, func(n *Node) bool {
			if n == nil {
				return false
			}
			_, err := n.Propose(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: testTopic, TopicName: "t", NumPartitions: 4}}})
			return err == nil
		})
	}, "an entry that the other lacks")
	eventually(t, func() bool {
		return shown("cpnode_peer_up", gone, is(0)) && shown("cpnode_failures_tolerated", "", is(0)) &&
			shown("cpnode_peer_lag_entries", gone, func(v float64) bool { return v != 0 }) &&
			shown("cpnode_peer_last_contact_seconds", gone, func(v float64) bool { return v != 0 })
	}, "the other is missed")
}

// A member that never answered has an unknown lag, one that answers is not behind by
// what was committed since, and one that does not answer is.
func TestPeerLag(t *testing.T) {
	require.Equal(t, -1.0, (&poll{}).lag(10))
	require.Equal(t, -1.0, (&poll{}).silence())
	p := &poll{report: &nodeReport{AppliedIndex: 5}, commit: 7}
	require.Equal(t, 2.0, p.lag(10))
	p.problem = "no answer"
	require.Equal(t, 5.0, p.lag(10))
	p.report.AppliedIndex = 12
	require.Equal(t, 0.0, p.lag(10))
}

// While one directory replaces another of its name there is one series for the two.
func TestPeersByName(t *testing.T) {
	n := single(t, nil)
	n.polls.mu.Lock()
	n.polls.all = map[raft.ServerID]*poll{"b/1": {at: time.Unix(1, 0)}, "b/2": {at: time.Unix(2, 0)}, "c/1": {}}
	n.polls.mu.Unlock()
	servers := []raft.Server{{ID: n.id()}, {ID: "b/1"}, {ID: "b/2"}, {ID: "c/1"}}
	want := map[string]raft.ServerID{"b": "b/2", "c": "c/1"}
	require.Equal(t, want, n.peersByName(servers))
	slices.Reverse(servers)
	require.Equal(t, want, n.peersByName(servers))
}
