package purger

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

// LogPurger is what the TopicPurger needs of the control plane. Both *api.Embedded and
// *api.Client are one.
type LogPurger interface {
	PurgeDeletedLogs(context.Context, *ops.PurgeDeletedLogsRequest, ...api.Option) (*ops.PurgeDeletedLogsResponse, error)
}

// StateReader calls fn with the state as this node has it: a stale read of its node.
type StateReader func(ctx context.Context, fn func(*store.ReadTx) error) error

var (
	_ LogPurger = (*api.Embedded)(nil)
	_ LogPurger = (*api.Client)(nil)
)

// TopicPurgerConfig is topic.purger.* of the configuration.
type TopicPurgerConfig struct {
	Interval           time.Duration
	MaxBatchesPerCycle int64 // and soft-deleted logs looked at; 0 = all
}

// DefaultTopicPurgerConfig is what docs/configuration.md says.
func DefaultTopicPurgerConfig() TopicPurgerConfig {
	return TopicPurgerConfig{Interval: time.Minute, MaxBatchesPerCycle: 20_000}
}

// Validate names the first field that is wrong.
func (c *TopicPurgerConfig) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("Interval: must be positive")
	}
	if c.MaxBatchesPerCycle < 0 {
		return fmt.Errorf("MaxBatchesPerCycle: must not be negative")
	}
	return nil
}

// TopicPurger removes what soft-deleted logs hold, oldest delete first, in cycles that
// are many small entries.
type TopicPurger struct {
	worker  *worker.Worker
	config  TopicPurgerConfig
	plane   LogPurger
	state   StateReader
	backlog *backlog

	batches, logs, files prometheus.Counter
}

// NewTopicPurger makes one that does nothing until it runs. config must be valid. state
// says how long the oldest soft-deleted log has waited; nil leaves that metric at 0.
func NewTopicPurger(config TopicPurgerConfig, plane LogPurger, state StateReader, deps worker.Deps) *TopicPurger {
	m := worker.Metrics{Prefix: "topic_purger", Registerer: deps.Registerer}
	w := worker.New("topic-purger", m, deps)
	return &TopicPurger{
		worker: w, config: config, plane: plane, state: state, backlog: newBacklog(m, w.Clock),
		batches: m.Counter("batches_total", "Batches deleted."),
		logs:    m.Counter("logs_total", "Soft-deleted logs dropped."),
		files:   m.Counter("files_marked_total", "Files that lost their last batch, to be deleted by the file cleaner."),
	}
}

// Run purges until ctx ends, at once and then every interval: sooner after a cycle that
// its cap ended, or that failed. It waits for a cycle under way, which ends with ctx.
func (p *TopicPurger) Run(ctx context.Context) {
	defer p.backlog.forget()
	p.worker.Repeat(ctx, func() (time.Duration, error) {
		t, err := p.RunOnce(ctx)
		return pace(p.config.Interval, saturated(t)), err
	})
}

// saturated says that the next cycle should not wait: the cap ended this one, which
// got something done.
func saturated(t ops.PurgeDeletedLogsResponse) bool { return t.CapReached && !idle(t) }

func idle(t ops.PurgeDeletedLogsResponse) bool {
	return t.BatchesDeleted == 0 && t.LogsPurged == 0 && t.FilesMarked == 0
}

// callBatches is what one call of a cycle takes: of a call that fails half-way, nobody
// hears how much of it was done.
const callBatches = 2000

// RunOnce carries out one cycle now, after one that is under way. Errors are those of
// the control plane, *ops.Error. The totals are true also with an error, but for the
// call that failed: when that is OUTCOME_UNKNOWN, up to 2,000 more batches may be gone.
func (p *TopicPurger) RunOnce(ctx context.Context) (totals ops.PurgeDeletedLogsResponse, err error) {
	err = p.worker.Once(ctx, func(ctx context.Context) (err error) {
		began := p.worker.Clock.Now()
		totals, err = p.purge(ctx)
		p.record(ctx, totals, err, p.worker.Clock.Since(began))
		return err
	})
	return totals, err
}

// purge calls until nothing is left, or the cap is: of batches, and of logs as well.
func (p *TopicPurger) purge(ctx context.Context) (total ops.PurgeDeletedLogsResponse, err error) {
	left := p.config.MaxBatchesPerCycle
	for capped := left > 0; ; {
		most := int64(callBatches)
		if capped {
			most = min(most, left)
		}
		part, err := p.plane.PurgeDeletedLogs(ctx, &ops.PurgeDeletedLogsRequest{MaxBatches: most})
		if err != nil {
			return total, fmt.Errorf("purging: %w", err)
		}
		total.BatchesDeleted += part.BatchesDeleted
		total.LogsPurged += part.LogsPurged
		total.FilesMarked += part.FilesMarked
		total.MoreRemain = part.MoreRemain
		left -= max(part.BatchesDeleted, part.LogsPurged)
		if !saturated(*part) || capped && left <= 0 {
			total.CapReached = part.CapReached && capped
			return total, nil
		}
	}
}

func (p *TopicPurger) record(ctx context.Context, t ops.PurgeDeletedLogsResponse, err error, took time.Duration) {
	p.batches.Add(float64(t.BatchesDeleted))
	p.logs.Add(float64(t.LogsPurged))
	p.files.Add(float64(t.FilesMarked))
	if saturated(t) {
		p.backlog.saturated.Inc()
	}
	since := int64(none)
	if t.MoreRemain || err != nil {
		since = p.oldestDelete(ctx)
	}
	if err == nil || since != none { // else nothing is known
		p.backlog.left(t.MoreRemain || err != nil, since)
	}
	if !idle(t) {
		p.worker.Logger.Info("purged deleted topics", "batches", t.BatchesDeleted, "logs", t.LogsPurged, "files_marked", t.FilesMarked,
			"more_remain", t.MoreRemain, "took", took)
	}
}

// oldestDelete is when the soft-deleted log that waits longest was deleted, as this node
// knows, or none.
func (p *TopicPurger) oldestDelete(ctx context.Context) int64 {
	since := int64(none)
	if p.state == nil {
		return since
	}
	err := p.state(ctx, func(tx *store.ReadTx) error {
		return tx.DeletedLogs(nil, func(d store.DeletedLog) bool {
			since = d.DeletedAt
			return false
		})
	})
	if err != nil { // a metric is not worth a failed cycle
		return none
	}
	return since
}
