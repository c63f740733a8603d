package raftmetrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metrics "github.com/hashicorp/go-metrics/compat"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

var literalKey = regexp.MustCompile(`\[\]string\{((?:"[^"]+"(?:, )?)+)\}`)

// The table is what the raft of go.mod measures: no more, no less.
func TestTableIsWhatRaftMeasures(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hashicorp/raft").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	require.NoError(t, err)
	measured, known := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "testing") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range literalKey.FindAllStringSubmatch(string(source), -1) {
			key := strings.ReplaceAll(strings.ReplaceAll(m[1], `"`, ""), ", ", ".")
			if key == "raft.leader" {
				key += ".oldestLogAge" // which is appended where it is measured
			}
			if strings.HasPrefix(key, "raft.") && !strings.HasSuffix(key, ".") {
				measured[key] = true
			}
		}
	}
	for _, l := range table {
		require.False(t, known[l.key], "%s is there twice", l.key)
		known[l.key] = true
	}
	require.Equal(t, measured, known)
}

// nodeConfig takes snapshots all the time.
func nodeConfig(t *testing.T, id string) raftnode.Config {
	c := raftnode.DefaultConfig()
	c.NodeID, c.DataDir, c.RaftAddr = id, filepath.Join(t.TempDir(), id), "127.0.0.1:0"
	c.CommitTimeout = 10 * time.Millisecond
	c.SnapshotThreshold, c.SnapshotInterval = 1, 10*time.Millisecond
	return c
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, 5*time.Millisecond, what)
}

// Two nodes in one process, one of which the other takes in: what their rafts measure
// comes to both registries, none of it unknown, with names of members as labels only.
func TestRaftOfTwoNodes(t *testing.T) {
	registries := []*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewRegistry()}
	for _, r := range registries {
		require.NoError(t, Register(r))
	}
	require.Error(t, Register(registries[0]), "it is there")
	first, err := raftnode.Open(nodeConfig(t, "alpha"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, first.Close()) })
	eventually(t, "it leads", func() bool { return first.Ready() == nil })
	second := nodeConfig(t, "omega")
	second.RaftAddr = freeAddr(t)
	second.Peers = []raftnode.Peer{{ID: "alpha", Addr: first.RaftAddr()}, {ID: "omega", Addr: second.RaftAddr}}
	_, err = first.Propose(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: store.TopicID{1}, TopicName: "t", NumPartitions: 1}}})
	require.NoError(t, err)
	other, err := raftnode.Open(second)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	eventually(t, "it is taken in and has caught up", func() bool {
		if other.Ready() == nil {
			return true
		}
		_, err = first.Join(t.Context(), second.Peers[1])
		return false
	})

	for _, r := range registries {
		for metric, labels := range map[string]string{
			"applies_total": "", "commit_duration_seconds": "", "state_changes_total": "leader", "thread_busy_ratio": "main",
			"fsm_duration_seconds": "apply_batch", "snapshot_duration_seconds": "persist", "rpc_duration_seconds": "append_entries",
			"net_duration_seconds": "AppendEntries", "replication_duration_seconds": "omega", "replication_entries_total": "omega",
		} {
			eventually(t, metric+" "+labels, func() bool { return value(t, r, prefix+metric, labels) > 0 })
		}
		require.Zero(t, value(t, r, prefix+"unknown_total", ""))
		families, err := r.Gather()
		require.NoError(t, err)
		for _, f := range families {
			require.NotRegexp(t, "alpha|omega", f.GetName())
			for _, m := range f.GetMetric() {
				require.NotContains(t, m.String(), "/", "an instance in a label")
			}
		}
	}
}

// value is the first value of a metric one of whose labels has a value, or of any.
func value(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	families, err := g.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || hasLabel(m, label)) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func hasLabel(m *dto.Metric, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetValue() == value {
			return true
		}
	}
	return false
}

func TestUnitsAndWhatIsUnknown(t *testing.T) {
	s := newSink()
	s.AddSample([]string{"raft", "commitTime"}, 250)
	s.SetGauge([]string{"raft", "leader", "oldestLogAge"}, 1500)
	s.AddSampleWithLabels([]string{"raft", "replication", "heartbeat"}, 1, []metrics.Label{{Name: "peer_id", Value: "b/0123"}})
	s.IncrCounter([]string{"raft", "replication", "appendEntries", "logs", "b"}, 1)
	s.EmitKey([]string{"raft"}, 1)
	require.NoError(t, testutil.CollectAndCompare(s, strings.NewReader(`
# HELP cpnode_hashicorp_raft_leader_oldest_entry_age_seconds Age of the oldest entry in the leader's log.
# TYPE cpnode_hashicorp_raft_leader_oldest_entry_age_seconds gauge
cpnode_hashicorp_raft_leader_oldest_entry_age_seconds 1.5
# HELP cpnode_hashicorp_raft_unknown_total Measurements that are not in this release's table, and not shown.
# TYPE cpnode_hashicorp_raft_unknown_total counter
cpnode_hashicorp_raft_unknown_total 2
`), prefix+"leader_oldest_entry_age_seconds", prefix+"unknown_total"))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(s))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == prefix+"commit_duration_seconds" {
			require.Equal(t, .25, f.GetMetric()[0].GetHistogram().GetSampleSum())
		}
	}
	require.Positive(t, value(t, registry, prefix+"replication_duration_seconds", "b"))
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := loopback.FreeAddr()
	require.NoError(t, err)
	return addr
}
