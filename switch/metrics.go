package switchover

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
)

// states are the values of the label of the partitions metric.
var states = []ops.PartitionState{
	ops.StateClassic, ops.StateSwitchPending, ops.StatePrefixWaitingForUpload, ops.StatePrefixInRemoteStorage, ops.StateBornDiskless,
}

// register makes the metrics of the gate. They are read when they are collected, without a
// wait for any disk; none has a label per partition.
func (g *Gate) register(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		registerer.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "cpnode_switch_" + name, Help: help, ConstLabels: labels}, read))
	}
	gauge("deletions_queued", "Partitions whose local classic prefix waits to be deleted on this broker.", nil,
		func() float64 { return float64(g.deletions.len()) })
	gauge("local_prefix_bytes", "Bytes of local segments that begin below a committed seal.", nil,
		func() float64 { return g.sum(func(p *partition) int64 { return p.prefixBytes.Load() }) })
	for _, state := range states {
		gauge("gate_partitions", "Partitions on this broker, by where their classic prefix is.", prometheus.Labels{"state": string(state)},
			func() float64 { return g.sum(func(p *partition) int64 { return p.isIn(state) }) })
	}
}

func (g *Gate) sum(of func(*partition) int64) float64 {
	n := int64(0)
	for _, p := range g.all() {
		n += of(p)
	}
	return float64(n)
}

func (p *partition) isIn(state ops.PartitionState) int64 {
	if s := p.state.Load(); s != nil && *s == state {
		return 1
	}
	return 0
}
