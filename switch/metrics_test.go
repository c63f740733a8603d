package switchover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	b := filled(t, 20)
	registry := prometheus.NewRegistry()
	b.RegisterMetrics(registry)
	b.Apply(classic())
	b.requireMetrics(registry, `
cpnode_switch_deletions_queued 0
cpnode_switch_gate_partitions{state="BORN_DISKLESS"} 0
cpnode_switch_gate_partitions{state="CLASSIC"} 1
cpnode_switch_gate_partitions{state="PREFIX_IN_REMOTE_STORAGE"} 0
cpnode_switch_gate_partitions{state="PREFIX_WAITING_FOR_UPLOAD"} 0
cpnode_switch_gate_partitions{state="SWITCH_PENDING"} 0
cpnode_switch_local_prefix_bytes 0
`)
	b.remote.list(9)
	b.Apply(flagged(20))
	b.DeletePass(false)
	require.EqualValues(t, 10, b.status().LocalLogStart)
	b.requireMetrics(registry, `
cpnode_switch_deletions_queued 1
cpnode_switch_gate_partitions{state="BORN_DISKLESS"} 0
cpnode_switch_gate_partitions{state="CLASSIC"} 0
cpnode_switch_gate_partitions{state="PREFIX_IN_REMOTE_STORAGE"} 1
cpnode_switch_gate_partitions{state="PREFIX_WAITING_FOR_UPLOAD"} 0
cpnode_switch_gate_partitions{state="SWITCH_PENDING"} 0
cpnode_switch_local_prefix_bytes 340
`)
}

// requireMetrics compares the values of the gate's metrics.
func (b *broker) requireMetrics(registry *prometheus.Registry, want string) {
	b.t.Helper()
	families, err := registry.Gather()
	require.NoError(b.t, err)
	var text strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			text.WriteString(f.GetName())
			for _, l := range m.Label {
				fmt.Fprintf(&text, "{%s=%q}", l.GetName(), l.GetValue())
			}
			fmt.Fprintf(&text, " %v\n", m.Gauge.GetValue())
		}
	}
	require.Equal(b.t, strings.TrimPrefix(want, "\n"), text.String())
}
