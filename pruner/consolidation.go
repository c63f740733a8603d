package pruner

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/worker"
)

// LogPruner is what the consolidation pruner needs of the control plane.
type LogPruner interface {
	PruneDisklessLogs(context.Context, *ops.PruneDisklessLogsRequest, ...api.Option) (*ops.PruneDisklessLogsResponse, error)
}

var (
	_ LogPruner = (*api.Embedded)(nil)
	_ LogPruner = (*api.Client)(nil)
)

// Consolidation says what tiered storage holds. A broker that embeds the control
// plane knows it by itself; [RemoteOffsets] is told.
type Consolidation interface {
	// ConsolidationActiveFor says whether a partition's batches may go once tiered
	// storage holds them.
	ConsolidationActiveFor(ops.LogRef) bool
	// HighestRemoteOffsets is the last offset that tiered storage holds of each
	// partition that it holds something of. The caller may change the slice.
	HighestRemoteOffsets(context.Context) ([]ops.PruneLog, error)
	// Gone says that the control plane has no such partition, any more or yet.
	Gone(ops.LogRef)
}

// ConsolidationPruner removes the batches that tiered storage holds.
type ConsolidationPruner struct {
	worker        *worker.Worker
	plane         LogPruner
	source        Consolidation
	switchPending func(ops.LogRef) bool
	config        Config

	partitions, remain prometheus.Gauge
	saturated          prometheus.Counter
	batches, bytes     prometheus.Counter
}

// PruneTotals are what one run of the consolidation pruner did.
type PruneTotals struct {
	Partitions     int64 `json:"partitions"` // that were looked at
	BatchesDeleted int64 `json:"batches_deleted"`
	BytesDeleted   int64 `json:"bytes_deleted"`
	MoreRemain     bool  `json:"more_remain"` // the run took its interval, and left some
}

// NewConsolidationPruner makes a pruner of what source says. Partitions for which
// switchPending is true are left alone; nil is never. The config is valid.
func NewConsolidationPruner(plane LogPruner, source Consolidation, switchPending func(ops.LogRef) bool, config Config, deps worker.Deps) *ConsolidationPruner {
	if switchPending == nil {
		switchPending = func(ops.LogRef) bool { return false }
	}
	m := worker.Metrics{Prefix: "consolidation_pruner", Registerer: deps.Registerer}
	return &ConsolidationPruner{
		worker: worker.New("consolidation-pruner", m, deps),
		plane:  plane, source: source, switchPending: switchPending, config: config,
		partitions: m.Gauge("partitions", "Partitions that the last run looked at; 0 on a node that does not lead."),
		remain:     m.Gauge("work_remains", "1 when the last run left batches that tiered storage holds."),
		saturated:  m.Counter("saturated_cycles_total", "Runs that took their interval, with more to do."),
		batches:    m.Counter("deleted_batches_total", "Batches removed by runs that succeeded."),
		bytes:      m.Counter("deleted_bytes_total", "Size of batches removed by runs that succeeded."),
	}
}

// Run prunes until ctx ends.
func (p *ConsolidationPruner) Run(ctx context.Context) {
	defer p.partitions.Set(0)
	defer p.remain.Set(0)
	p.worker.Repeat(ctx, func() (time.Duration, error) {
		totals, err := p.RunOnce(ctx)
		if totals.MoreRemain {
			return max(p.config.ConsolidationInterval/10, time.Second), err
		}
		return p.config.ConsolidationInterval, err
	})
}

// RunOnce prunes each partition once, and those that have more again and again, one
// after the other, until none has or the interval has passed. The totals of a run that
// fails are what was done before; they are in no metric.
func (p *ConsolidationPruner) RunOnce(ctx context.Context) (PruneTotals, error) {
	var totals PruneTotals
	err := p.worker.Once(ctx, func(ctx context.Context) error { return p.prune(ctx, &totals) })
	if err == nil {
		p.record(&totals)
	}
	return totals, err
}

func (p *ConsolidationPruner) prune(ctx context.Context, totals *PruneTotals) error {
	logs, err := p.source.HighestRemoteOffsets(ctx)
	if err != nil {
		return err
	}
	logs = slices.DeleteFunc(logs, p.leavesAlone)
	totals.Partitions = int64(len(logs))
	for began := p.worker.Clock.Now(); len(logs) > 0; {
		if logs, err = p.round(ctx, logs, totals); err != nil {
			return err
		}
		if p.worker.Clock.Since(began) >= p.config.ConsolidationInterval {
			break
		}
	}
	totals.MoreRemain = len(logs) > 0
	return nil
}

func (p *ConsolidationPruner) leavesAlone(l ops.PruneLog) bool {
	ref := ops.LogRef{TopicID: l.TopicID, Partition: l.Partition}
	return p.switchPending(ref) || !p.source.ConsolidationActiveFor(ref)
}

// round prunes each of logs once, and is those that have more.
func (p *ConsolidationPruner) round(ctx context.Context, logs []ops.PruneLog, totals *PruneTotals) (left []ops.PruneLog, err error) {
	err = inRequests(ctx, logs, p.config.PartitionsPerRequest, func(logs []ops.PruneLog) error {
		answer, err := p.plane.PruneDisklessLogs(ctx, &ops.PruneDisklessLogsRequest{Requests: logs, MaxBatches: p.config.ConsolidationMaxBatches})
		if err != nil {
			return err
		}
		for i, a := range answer.Responses {
			if a.Error != ops.None {
				p.source.Gone(ops.LogRef{TopicID: a.TopicID, Partition: a.Partition})
				continue
			}
			totals.BatchesDeleted += a.BatchesDeleted
			totals.BytesDeleted += a.BytesDeleted
			if a.MoreRemain {
				left = append(left, logs[i])
			}
		}
		return nil
	})
	return left, err
}

func (p *ConsolidationPruner) record(t *PruneTotals) {
	p.partitions.Set(float64(t.Partitions))
	p.remain.Set(one(t.MoreRemain))
	p.saturated.Add(one(t.MoreRemain))
	p.batches.Add(float64(t.BatchesDeleted))
	p.bytes.Add(float64(t.BytesDeleted))
	if t.BatchesDeleted > 0 {
		p.worker.Logger.Info("pruned what tiered storage holds", "partitions", t.Partitions, "batches", t.BatchesDeleted, "bytes", t.BytesDeleted, "more_remain", t.MoreRemain)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
