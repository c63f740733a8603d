package pruner

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/worker"
)

// ExpireControlPlane is what the expirers need of the control plane.
type ExpireControlPlane interface {
	ExpireProducers(context.Context, *ops.ExpireProducersRequest, ...api.Option) (*ops.ExpireProducersResponse, error)
	ExpireFences(context.Context, *ops.ExpireFencesRequest, ...api.Option) (*ops.ExpireFencesResponse, error)
	ExpireReplays(context.Context, *ops.ExpireReplaysRequest, ...api.Option) (*ops.ExpireReplaysResponse, error)
}

var (
	_ ExpireControlPlane = (*api.Embedded)(nil)
	_ ExpireControlPlane = (*api.Client)(nil)
)

// Expirer drops rows of one kind that no longer matter, in bounded requests.
type Expirer struct {
	worker   *worker.Worker
	interval time.Duration
	begin    func(now time.Time) expire
	rows     prometheus.Counter
}

// ExpireTotals are what one cycle of an expirer did.
type ExpireTotals struct {
	Removed int64 `json:"removed"`
}

// expire makes one request of a cycle, and says whether another should follow.
type expire func(context.Context) (removed int64, more bool, err error)

func newExpirer(name, kind string, interval time.Duration, deps worker.Deps, begin func(now time.Time) expire) *Expirer {
	m := worker.Metrics{Prefix: "expirer", Labels: prometheus.Labels{"kind": kind}, Registerer: deps.Registerer}
	return &Expirer{
		worker:   worker.New(name, m, deps),
		interval: interval, begin: begin,
		rows: m.Counter("removed_rows_total", "Rows removed, by kind: producers, fences or replays."),
	}
}

// NewProducerExpirer makes an expirer of idempotent producers that have been idle
// for ProducerExpiration. The config is valid.
func NewProducerExpirer(plane ExpireControlPlane, config Config, deps worker.Deps) *Expirer {
	return newExpirer("producer-expirer", "producers", config.ExpireProducersInterval, deps, func(now time.Time) expire {
		r := ops.ExpireProducersRequest{IdleBefore: now.Add(-config.ProducerExpiration).UnixMilli(), MaxRows: config.ExpireMaxRows}
		return func(ctx context.Context) (int64, bool, error) {
			if config.ProducerExpiration == 0 {
				return 0, false, nil
			}
			answer, err := plane.ExpireProducers(ctx, &r)
			if err != nil {
				return 0, false, err
			}
			r.After = answer.Next
			return answer.Removed, answer.Next != "", nil
		}
	})
}

// NewFenceExpirer makes an expirer of fences that no longer hold. The config is valid.
func NewFenceExpirer(plane ExpireControlPlane, config Config, deps worker.Deps) *Expirer {
	return newExpirer("fence-expirer", "fences", config.ExpireInterval, deps, func(time.Time) expire {
		return func(ctx context.Context) (int64, bool, error) {
			answer, err := plane.ExpireFences(ctx, &ops.ExpireFencesRequest{MaxRows: config.ExpireMaxRows})
			if err != nil {
				return 0, false, err
			}
			return answer.Removed, answer.Removed >= config.ExpireMaxRows, nil
		}
	})
}

// NewReplayExpirer makes an expirer of answers to commits that are no longer
// replayed. The config is valid.
func NewReplayExpirer(plane ExpireControlPlane, config Config, deps worker.Deps) *Expirer {
	return newExpirer("replay-expirer", "replays", config.ExpireInterval, deps, func(time.Time) expire {
		return func(ctx context.Context) (int64, bool, error) {
			answer, err := plane.ExpireReplays(ctx, &ops.ExpireReplaysRequest{MaxRows: config.ExpireMaxRows})
			if err != nil {
				return 0, false, err
			}
			return answer.Removed, answer.Removed >= config.ExpireMaxRows, nil
		}
	})
}

// Run expires until ctx ends.
func (e *Expirer) Run(ctx context.Context) {
	e.worker.Repeat(ctx, func() (time.Duration, error) {
		_, err := e.RunOnce(ctx)
		return e.interval, err
	})
}

// RunOnce removes all that is due now. After an error the totals are what was
// removed before.
func (e *Expirer) RunOnce(ctx context.Context) (ExpireTotals, error) {
	var totals ExpireTotals
	err := e.worker.Once(ctx, func(ctx context.Context) error {
		next := e.begin(e.worker.Clock.Now())
		for {
			removed, more, err := next(ctx)
			totals.Removed += removed
			e.rows.Add(float64(removed))
			if err != nil || !more {
				return err
			}
		}
	})
	if totals.Removed > 0 {
		e.worker.Logger.Info("removed what no longer matters", "rows", totals.Removed)
	}
	return totals, err
}
