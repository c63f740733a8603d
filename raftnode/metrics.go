package raftnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

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
	reads         *prometheus.CounterVec
	entryBytes    prometheus.Histogram
	batchEntries  prometheus.Histogram
	applySeconds  prometheus.Histogram
	logSeconds    *prometheus.HistogramVec
	confirmations *prometheus.CounterVec
	confirmTime   prometheus.Histogram
	restoreTime   prometheus.Histogram
	persistTime   prometheus.Histogram
	persistFails  prometheus.Counter
	persistedAt   prometheus.Gauge
	replacedAt    prometheus.Gauge
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
		yields:        counters("cpnode_leader_yields_total", "Times that this node made way for another leader, by reason.", "reason"),
		proposals:     counters("cpnode_proposals_total", "Log entries proposed, by outcome.", "outcome"),
		reads:         counters("cpnode_reads_total", "Reads of this node's state, by consistency and outcome.", "consistency", "outcome"),
		entryBytes:    histogram("cpnode_entry_bytes", "Size of proposed log entries.", entrySizes),
		batchEntries:  histogram("cpnode_apply_batch_entries", "Log entries applied in one go.", batchSizes),
		applySeconds:  histogram("cpnode_apply_duration_seconds", "Time to apply the log entries of one batch.", ioSeconds),
		logSeconds:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cpnode_raft_log_duration_seconds", Help: "Time of one call of the raft log, by kind.", Buckets: ioSeconds}, []string{"op"}),
		confirmations: counters("cpnode_leader_confirmations_total", "Rounds of term questions for linearizable reads, by outcome.", "outcome"),
		confirmTime:   histogram("cpnode_leader_confirmation_duration_seconds", "Time of one round of term questions.", ioSeconds),
		persistTime:   histogram("cpnode_snapshot_duration_seconds", "Time to record the state as a snapshot.", ioSeconds),
		persistFails:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cpnode_snapshot_failures_total", Help: "Snapshots that could not be recorded."}),
		persistedAt:   newGauge("cpnode_snapshot_last_success_timestamp_seconds", "When this node last recorded a snapshot, in Unix time; 0: not since it started."),
		replacedAt:    newGauge("cpnode_state_replaced_timestamp_seconds", "When this node put its damaged or differing state aside, in Unix time; 0: not since it started."),
		syncTime:      histogram("cpnode_state_sync_duration_seconds", "Time of one sync point of the state, without snapshots.", ioSeconds),
		restoreTime:   histogram("cpnode_restore_duration_seconds", "Time to install a snapshot as the state.", copySeconds),
	}
	m.collectors = []prometheus.Collector{
		m.yields, m.proposals, m.reads, m.entryBytes, m.batchEntries, m.applySeconds, m.logSeconds, m.confirmations, m.confirmTime,
		m.persistTime, m.persistFails, m.persistedAt, m.replacedAt, m.syncTime, m.restoreTime,
	}
	m.begin()
	return m
}

// begin makes the counters that are 0 so far visible: of one that appears with its
// first event, no rate shows that event.
func (m *metrics) begin() {
	for _, kind := range unfitKinds {
		m.yields.WithLabelValues(string(kind))
	}
	for _, outcome := range []string{proposalDone, proposalUnknown, proposalOverloaded, proposalRefused} {
		m.proposals.WithLabelValues(outcome)
	}
	for _, level := range []Level{Linearizable, Stale} {
		m.reads.WithLabelValues(level.String(), readDone)
		m.reads.WithLabelValues(level.String(), readFailed)
	}
	for _, outcome := range []string{roundConfirmed, roundFailed} {
		m.confirmations.WithLabelValues(outcome)
	}
	for _, op := range logCalls {
		m.logSeconds.WithLabelValues(op)
	}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func newGauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
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
		stateCollector{n}, memberCollector{n},
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
		gauge("cpnode_disk_min_free_bytes", "disk.min.free.bytes: with less free, clients' writes are refused; 0: not watched.", func() float64 { return float64(n.config.DiskMinFree) }),
		gauge("cpnode_proposals_in_flight", "Log entries that were proposed and not answered yet.", func() float64 { entries, _ := n.inFlight.now(); return float64(entries) }),
		gauge("cpnode_proposals_in_flight_bytes", "Size of the log entries that were proposed and not answered yet.", func() float64 { _, bytes := n.inFlight.now(); return float64(bytes) }),
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

// logCalls are what logStore times.
var logCalls = []string{"append", "read", "delete", "set"}

// Outcomes of proposals, of reads, and of rounds of term questions.
const (
	proposalDone       = "done"
	proposalUnknown    = "unknown"
	proposalOverloaded = "overloaded"
	proposalRefused    = "refused"

	readDone   = "done"
	readFailed = "failed"

	roundConfirmed = "confirmed"
	roundFailed    = "failed"
)

// proposed counts one entry, or its refusal.
func (m *metrics) proposed(err error) {
	outcome := proposalDone
	var answer *ops.Error
	switch {
	case err == nil:
	case errors.As(err, &answer) && answer.Code == ops.OutcomeUnknown:
		outcome = proposalUnknown
	case errors.As(err, &answer) && answer.Code == ops.Overloaded:
		outcome = proposalOverloaded
	default:
		outcome = proposalRefused
	}
	m.proposals.WithLabelValues(outcome).Inc()
}

// read counts a read that could be answered, or not.
func (m *metrics) read(level Level, err error) {
	outcome := readDone
	if err != nil {
		outcome = readFailed
	}
	m.reads.WithLabelValues(level.String(), outcome).Inc()
}

// confirmed counts one round of term questions.
func (m *metrics) confirmed(d time.Duration, err error) {
	outcome := roundConfirmed
	if err != nil {
		outcome = roundFailed
	}
	m.confirmations.WithLabelValues(outcome).Inc()
	m.confirmTime.Observe(d.Seconds())
}
