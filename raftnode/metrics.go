package raftnode

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
)

// metrics of one node. None has a label whose values grow with topics, partitions
// or clients.
type metrics struct {
	registerer prometheus.Registerer
	collectors []prometheus.Collector
	registered []prometheus.Collector

	yields        *prometheus.CounterVec
	proposals     *prometheus.CounterVec
	entryBytes    prometheus.Histogram
	batchEntries  prometheus.Histogram
	applySeconds  prometheus.Histogram
	logSeconds    *prometheus.HistogramVec
	confirmations *prometheus.CounterVec
	confirmTime   prometheus.Histogram
	restoreTime   prometheus.Histogram
	persistTime   prometheus.Histogram
	syncTime      prometheus.Histogram
}

var (
	// From a cached read to a disk that hangs, in steps of two: one fsync takes
	// 0.2 to 20 ms on what people run this on.
	ioSeconds = prometheus.ExponentialBuckets(0.000_05, 2, 18)
	// From an empty state to one of some gigabytes.
	copySeconds = prometheus.ExponentialBuckets(0.01, 3, 10)
	// From the smallest entry to the largest one allowed by default, 1 MiB.
	entrySizes = prometheus.ExponentialBuckets(64, 4, 8)
	// Up to MaxAppendEntries' largest value.
	batchSizes = prometheus.ExponentialBuckets(1, 2, 11)
)

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		registerer:    registerer,
		yields:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cpnode_leader_yields_total", Help: "Times that this node made way for another leader, by reason."}, []string{"reason"}),
		proposals:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cpnode_proposals_total", Help: "Log entries proposed, by outcome."}, []string{"outcome"}),
		entryBytes:    histogram("cpnode_entry_bytes", "Size of proposed log entries.", entrySizes),
		batchEntries:  histogram("cpnode_apply_batch_entries", "Log entries applied in one transaction.", batchSizes),
		applySeconds:  histogram("cpnode_apply_duration_seconds", "Time of one transaction that applies log entries.", ioSeconds),
		logSeconds:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cpnode_raft_log_duration_seconds", Help: "Time of one call of the raft log, by kind.", Buckets: ioSeconds}, []string{"op"}),
		confirmations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cpnode_leader_confirmations_total", Help: "Rounds of term questions for linearizable reads, by outcome."}, []string{"outcome"}),
		confirmTime:   histogram("cpnode_leader_confirmation_duration_seconds", "Time of one round of term questions.", ioSeconds),
	}
	m.persistTime = histogram("cpnode_snapshot_duration_seconds", "Time to record the state as a snapshot.", ioSeconds)
	m.syncTime = histogram("cpnode_state_sync_duration_seconds", "Time of one sync point of the state, without snapshots.", ioSeconds)
	m.restoreTime = histogram("cpnode_restore_duration_seconds", "Time to install a snapshot as the state.", copySeconds)
	for _, kind := range unfitKinds {
		m.yields.WithLabelValues(string(kind))
	}
	m.collectors = []prometheus.Collector{m.yields, m.persistTime, m.syncTime, m.restoreTime, m.proposals, m.entryBytes, m.batchEntries, m.applySeconds, m.logSeconds, m.confirmations, m.confirmTime}
	return m
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// register registers the node's metrics and more.
func (m *metrics) register(more []prometheus.Collector) error {
	if m.registerer == nil {
		return nil
	}
	for _, c := range append(m.collectors, more...) {
		if err := m.registerer.Register(c); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
}

// gauges read the node when they are collected.
func (n *Node) gauges() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	return []prometheus.Collector{
		stateCollector{n},
		gauge("cpnode_raft_term", "Present term.", func() float64 { return float64(n.raft.CurrentTerm()) }),
		gauge("cpnode_raft_leader", "1 on the leader.", func() float64 { return one(n.raft.State() == raft.Leader) }),
		gauge("cpnode_raft_has_leader", "1 when a leader is known.", func() float64 { return one(n.LeaderID() != "") }),
		gauge("cpnode_raft_last_index", "End of this node's log.", func() float64 { return float64(n.raft.LastIndex()) }),
		gauge("cpnode_raft_commit_index", "Last entry known to be committed.", func() float64 { return float64(n.raft.CommitIndex()) }),
		gauge("cpnode_applied_index", "Last entry in the state.", func() float64 { return float64(n.fsm.Applied()) }),
		gauge("cpnode_staleness_seconds", "Age of the state behind what the leader had committed; -1 when unknown.", n.stalenessSeconds),
		gauge("cpnode_raft_last_contact_seconds", "Time since the leader was heard of; 0 on the leader, -1 before.", n.contactSeconds),
		gauge("cpnode_raft_mute", "1 while this node is silent, so that others elect a leader.", func() float64 { return one(n.transport.layer.isMute()) }),
		gauge("cpnode_raft_log_slow_seconds", "Time for which each write to the raft log has been slow.", n.slowSeconds),
		gauge("cpnode_disk_free_bytes", "Free space in the data directory's file system; -1 when unknown.", func() float64 { return float64(n.space.bytes.Load()) }),
		gauge("cpnode_clock_offset_seconds", "On the leader: its clock less the median of the voters'.", n.clockSkew),
		gauge("cpnode_state_divergence", "1 once this node's state was found to differ from the others'.", func() float64 { return one(n.identity.Load().Corrupt != "") }),
		gauge("cpnode_storage_full", "1 while this node has no space for clients' writes.", func() float64 { return one(n.space.low() != "") }),
		gauge("cpnode_node_failed", "1 once the node has stopped over something it cannot go on from.", func() float64 { return one(n.Err() != nil) }),
	}
}

func (n *Node) stalenessSeconds() float64 {
	if s := n.Staleness(); s != Unknown {
		return s.Seconds()
	}
	return -1
}

func (n *Node) contactSeconds() float64 {
	last := n.raft.LastContact()
	switch {
	case n.raft.State() == raft.Leader:
		return 0
	case last.IsZero():
		return -1
	default:
		return time.Since(last).Seconds()
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *metrics) logTimed(op string, d time.Duration) {
	m.logSeconds.WithLabelValues(op).Observe(d.Seconds())
}

func (m *metrics) yielded(kind unfitKind) { m.yields.WithLabelValues(string(kind)).Inc() }

func (n *Node) slowSeconds() float64 {
	run, _ := n.log.pace.run(time.Now())
	return run.Seconds()
}

// proposed counts one entry, or its refusal.
func (m *metrics) proposed(err error) {
	outcome := "done"
	var answer *ops.Error
	switch {
	case err == nil:
	case errors.As(err, &answer) && answer.Code == ops.OutcomeUnknown:
		outcome = "unknown"
	case errors.As(err, &answer) && answer.Code == ops.Overloaded:
		outcome = "overloaded"
	default:
		outcome = "refused"
	}
	m.proposals.WithLabelValues(outcome).Inc()
}

func (m *metrics) confirmed(d time.Duration, err error) {
	outcome := "confirmed"
	if err != nil {
		outcome = "failed"
	}
	m.confirmations.WithLabelValues(outcome).Inc()
	m.confirmTime.Observe(d.Seconds())
}

// timedFSM measures the state machine, which itself knows no clock.
type timedFSM struct {
	*fsm.FSM
	node *Node
}

// ApplyBatch implements raft.BatchingFSM.
func (t *timedFSM) ApplyBatch(entries []*raft.Log) []any {
	if err := t.node.awaitState(); err != nil {
		answers := make([]any, len(entries))
		for i, entry := range entries {
			answers[i] = fsm.Result{Index: entry.Index, Err: err}
		}
		return answers
	}
	start := time.Now()
	answers := t.FSM.ApplyBatch(entries)
	t.node.metrics.applySeconds.Observe(time.Since(start).Seconds())
	t.node.metrics.batchEntries.Observe(float64(len(entries)))
	return answers
}

// Snapshot implements raft.FSM.
func (t *timedFSM) Snapshot() (raft.FSMSnapshot, error) {
	if err := t.node.stateHere(); err != nil {
		return nil, err
	}
	s, err := t.FSM.Snapshot()
	return timedSnapshot{s, t.node.metrics}, err
}

// Restore implements raft.FSM.
func (t *timedFSM) Restore(r io.ReadCloser) error {
	start := time.Now()
	err := t.FSM.Restore(r)
	t.node.metrics.restoreTime.Observe(time.Since(start).Seconds())
	if err != nil {
		return err
	}
	return t.node.stateArrived()
}

type timedSnapshot struct {
	raft.FSMSnapshot
	metrics *metrics
}

// Persist implements raft.FSMSnapshot.
func (s timedSnapshot) Persist(sink raft.SnapshotSink) error {
	start := time.Now()
	err := s.FSMSnapshot.Persist(sink)
	s.metrics.persistTime.Observe(time.Since(start).Seconds())
	return err
}
