package purger

import (
	"context"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
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
	worker
	plane  LogPurger
	state  StateReader
	max    int64
	purged purgeMetrics
}

// NewTopicPurger makes one that does nothing until it runs. config must be valid. state
// says how long the oldest soft-deleted log has waited; nil leaves that metric at 0.
func NewTopicPurger(config TopicPurgerConfig, plane LogPurger, state StateReader, deps Deps) *TopicPurger {
	w := newWorker("topic purger", "cpnode_topic_purger_", config.Interval, deps)
	return &TopicPurger{worker: w, plane: plane, state: state, max: config.MaxBatchesPerCycle, purged: newPurgeMetrics(w.Deps)}
}

// Run purges until ctx ends, at once and then every interval: sooner after a cycle that
// its cap ended, or that failed. It waits for a cycle under way, which ends with ctx.
func (p *TopicPurger) Run(ctx context.Context) {
	p.run(ctx, func(ctx context.Context) (bool, error) {
		t, err := p.RunOnce(ctx)
		return saturated(t), err
	})
}

// saturated says that the next cycle should not wait: the cap ended this one, which
// got something done.
func saturated(t ops.PurgeDeletedLogsResponse) bool { return t.CapReached && !idle(t) }

func idle(t ops.PurgeDeletedLogsResponse) bool {
	return t.BatchesDeleted == 0 && t.LogsPurged == 0 && t.FilesMarked == 0
}

// RunOnce carries out one cycle now, after one that is under way. Errors are those of
// the control plane, *ops.Error: of a cycle that fails after some entries, those stand,
// are in no totals, and the error is OUTCOME_UNKNOWN.
func (p *TopicPurger) RunOnce(ctx context.Context) (totals ops.PurgeDeletedLogsResponse, err error) {
	err = p.once(ctx, func(ctx context.Context) (bool, error) {
		began := p.Clock.Now()
		answer, err := p.plane.PurgeDeletedLogs(ctx, &ops.PurgeDeletedLogsRequest{MaxBatches: p.max})
		if err != nil {
			p.metrics.left(true, p.oldestDelete(ctx))
			return false, fmt.Errorf("purging: %w", err)
		}
		totals = *answer
		p.record(ctx, totals, p.Clock.Since(began))
		return saturated(totals), nil
	})
	return totals, err
}

func (p *TopicPurger) record(ctx context.Context, t ops.PurgeDeletedLogsResponse, took time.Duration) {
	p.purged.batches.Add(float64(t.BatchesDeleted))
	p.purged.logs.Add(float64(t.LogsPurged))
	p.purged.files.Add(float64(t.FilesMarked))
	since := int64(none)
	if t.MoreRemain {
		since = p.oldestDelete(ctx)
	}
	p.metrics.left(t.MoreRemain, since)
	if !idle(t) {
		p.Logger.Info("purged deleted topics", "batches", t.BatchesDeleted, "logs", t.LogsPurged, "files_marked", t.FilesMarked,
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
