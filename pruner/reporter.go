package pruner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/worker"
)

// ReportControlPlane is what the cross-tier reporter needs of the control plane.
type ReportControlPlane interface {
	AdvanceCrossTierLogStart(context.Context, *ops.AdvanceCrossTierLogStartRequest, ...api.Option) (*ops.AdvanceCrossTierLogStartResponse, error)
}

var (
	_ ReportControlPlane = (*api.Embedded)(nil)
	_ ReportControlPlane = (*api.Client)(nil)
)

// CrossTierReporter gathers the lowest offsets that tiered storage holds and reports
// those that advanced, a partition at most once an interval. It runs where the
// offsets become known: in a broker that embeds the control plane, or on the leader that
// brokers report to.
type CrossTierReporter struct {
	worker *worker.Worker
	plane  ReportControlPlane
	config Config

	mu sync.Mutex
	// pending are offsets that the control plane has not taken yet, stored what it was
	// heard to have.
	// Both have at most MaxPartitions; forgetting what is stored costs a request that
	// changes nothing.
	pending, stored map[ops.LogRef]int64

	reported, refused prometheus.Counter
}

// ReportTotals are what one cycle of the reporter did.
type ReportTotals struct {
	Partitions int64 `json:"partitions"` // whose offset the control plane has now
	Unknown    int64 `json:"unknown"`    // that it does not know; what was to be reported is dropped
}

// NewCrossTierReporter makes a reporter. The config is valid.
func NewCrossTierReporter(plane ReportControlPlane, config Config, deps worker.Deps) *CrossTierReporter {
	m := worker.Metrics{Prefix: "cross_tier_reporter", Registerer: deps.Registerer}
	r := &CrossTierReporter{
		worker: worker.New("cross-tier-reporter", m, deps),
		plane:  plane, config: config,
		pending: map[ops.LogRef]int64{}, stored: map[ops.LogRef]int64{},
		reported: m.Counter("reported_partitions_total", "Offsets that the control plane took."),
		refused:  m.Counter("refused_partitions_total", "Offsets for which there was no room until others are reported."),
	}
	m.GaugeFunc("pending_partitions", "Partitions whose offset waits to be reported.", func() float64 { return float64(r.Pending()) })
	return r
}

// AdvanceRemoteLogStart takes the lowest offset that tiered storage holds of a
// partition, for the next report. One that is not above what was given or reported
// before changes nothing. It is false when there is no room: give it again later.
func (r *CrossTierReporter) AdvanceRemoteLogStart(partition ops.LogRef, offset int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stored, ok := r.stored[partition]; ok && offset <= stored {
		return true
	}
	pending, ok := r.pending[partition]
	if !ok && len(r.pending) >= r.config.MaxPartitions {
		r.refused.Inc()
		return false
	}
	if !ok || offset > pending {
		r.pending[partition] = offset
	}
	return true
}

// Pending is the number of partitions whose offset waits to be reported.
func (r *CrossTierReporter) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

// Run reports until ctx ends. What is pending then stays, for another Run or for
// RunOnce.
func (r *CrossTierReporter) Run(ctx context.Context) {
	r.worker.Repeat(ctx, func() (time.Duration, error) {
		if r.Pending() == 0 {
			return r.config.ReportInterval, nil
		}
		_, err := r.RunOnce(ctx)
		return r.config.ReportInterval, err
	})
}

// RunOnce reports what is pending. What the control plane does not take stays pending.
func (r *CrossTierReporter) RunOnce(ctx context.Context) (ReportTotals, error) {
	var totals ReportTotals
	err := r.worker.Once(ctx, func(ctx context.Context) error {
		return inRequests(ctx, r.snapshot(), r.config.ReportsPerRequest, func(reports []ops.AdvanceLogStart) error {
			return r.report(ctx, reports, &totals)
		})
	})
	return totals, err
}

// snapshot is what is pending, by topic id and partition.
func (r *CrossTierReporter) snapshot() []ops.AdvanceLogStart {
	r.mu.Lock()
	reports := make([]ops.AdvanceLogStart, 0, len(r.pending))
	for p, offset := range r.pending {
		reports = append(reports, ops.AdvanceLogStart{TopicID: p.TopicID, Partition: p.Partition, RemoteLogStartOffset: offset})
	}
	r.mu.Unlock()
	slices.SortFunc(reports, func(a, b ops.AdvanceLogStart) int {
		return compareLogs(ops.LogRef{TopicID: a.TopicID, Partition: a.Partition}, ops.LogRef{TopicID: b.TopicID, Partition: b.Partition})
	})
	return reports
}

// report makes one request.
func (r *CrossTierReporter) report(ctx context.Context, reports []ops.AdvanceLogStart, totals *ReportTotals) error {
	answer, err := r.plane.AdvanceCrossTierLogStart(ctx, &ops.AdvanceCrossTierLogStartRequest{Requests: reports})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range answer.Responses {
		partition := ops.LogRef{TopicID: a.TopicID, Partition: a.Partition}
		if a.Error == ops.None {
			totals.Partitions++
			r.reported.Inc()
			r.remember(partition, a.RemoteLogStartOffset)
		} else {
			totals.Unknown++
		}
		if r.pending[partition] <= max(a.RemoteLogStartOffset, reports[i].RemoteLogStartOffset) {
			delete(r.pending, partition)
		}
	}
	return nil
}

func (r *CrossTierReporter) remember(partition ops.LogRef, offset int64) {
	if len(r.stored) >= r.config.MaxPartitions {
		clear(r.stored)
	}
	r.stored[partition] = offset
}
