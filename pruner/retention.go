package pruner

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/worker"
)

// RetentionControlPlane is what the retention enforcer needs of the control plane.
type RetentionControlPlane interface {
	ListTopics(context.Context, *ops.ListTopicsRequest, ...api.Option) (*ops.ListTopicsResponse, error)
	DescribeTopic(context.Context, *ops.DescribeTopicRequest, ...api.Option) (*ops.DescribeTopicResponse, error)
	EnforceRetention(context.Context, *ops.EnforceRetentionRequest, ...api.Option) (*ops.EnforceRetentionResponse, error)
}

var (
	_ RetentionControlPlane = (*api.Embedded)(nil)
	_ RetentionControlPlane = (*api.Client)(nil)
)

// RetentionEnforcer removes batches of topics whose cleanup.policy has delete, by
// retention.ms and retention.bytes. Each partition has its own random schedule, so
// that the work of many is spread out.
type RetentionEnforcer struct {
	worker *worker.Worker
	plane  RetentionControlPlane
	config Config

	// firstTurnMs is the earliest turn of Run's schedule, 0 when there is none.
	firstTurnMs atomic.Int64

	partitions             prometheus.Gauge
	capped, batches, bytes prometheus.Counter
}

// RetentionTotals are what one cycle of the retention enforcer did.
type RetentionTotals struct {
	Partitions     int64 `json:"partitions"` // that were looked at
	BatchesDeleted int64 `json:"batches_deleted"`
	BytesDeleted   int64 `json:"bytes_deleted"`
}

// NewRetentionEnforcer makes an enforcer. The config is valid.
func NewRetentionEnforcer(plane RetentionControlPlane, config Config, deps worker.Deps) *RetentionEnforcer {
	m := worker.Metrics{Prefix: "retention_enforcer", Registerer: deps.Registerer}
	e := &RetentionEnforcer{
		worker: worker.New("retention-enforcer", m, deps),
		plane:  plane, config: config,
		partitions: m.Gauge("partitions", "Partitions that are scheduled; 0 on a node that does not lead."),
		capped:     m.Counter("capped_turns_total", "Turns of a partition that took as many batches as one may; the next comes soon."),
		batches:    m.Counter("deleted_batches_total", "Batches removed."),
		bytes:      m.Counter("deleted_bytes_total", "Size of batches removed."),
	}
	m.GaugeFunc("schedule_lag_seconds", "How long the most overdue partition has waited for its turn; 0 when none is overdue.", e.lagSeconds)
	return e
}

func (e *RetentionEnforcer) lagSeconds() float64 {
	first := e.firstTurnMs.Load()
	if first == 0 {
		return 0
	}
	return max(0, e.worker.Clock.Since(time.UnixMilli(first)).Seconds())
}

// Run enforces each partition when its turn comes, until ctx ends.
func (e *RetentionEnforcer) Run(ctx context.Context) {
	s := newSchedule(e.plane, e.config.TopicsPerPage, e.config.RetentionInterval, e.worker.Random)
	defer e.publish(&schedule{})
	var refreshAt time.Time
	e.worker.Repeat(ctx, func() (time.Duration, error) {
		err := e.worker.Once(ctx, func(ctx context.Context) error {
			now := e.worker.Clock.Now()
			if !now.Before(refreshAt) {
				if err := s.refresh(ctx, now); err != nil {
					return err
				}
				refreshAt = now.Add(e.config.RetentionInterval)
			}
			e.publish(s)
			return e.enforceDue(ctx, s, now, &RetentionTotals{})
		})
		e.publish(s)
		return e.untilNext(s, refreshAt), err
	})
}

// untilNext gathers the turns of a while, so that not each makes a request.
func (e *RetentionEnforcer) untilNext(s *schedule, refreshAt time.Time) time.Duration {
	next := refreshAt
	if first := s.first(); !first.IsZero() && first.Before(next) {
		next = first
	}
	return max(e.worker.Clock.Until(next), e.gathering())
}

func (e *RetentionEnforcer) gathering() time.Duration { return e.config.RetentionInterval / 60 }

func (e *RetentionEnforcer) publish(s *schedule) {
	e.partitions.Set(float64(len(s.due)))
	if first := s.first(); !first.IsZero() {
		e.firstTurnMs.Store(first.UnixMilli())
		return
	}
	e.firstTurnMs.Store(0)
}

// RunOnce enforces every partition now, whatever its schedule, and once: one from
// which the cap left batches is not asked again. After an error the totals are what
// was done before.
func (e *RetentionEnforcer) RunOnce(ctx context.Context) (RetentionTotals, error) {
	var totals RetentionTotals
	err := e.worker.Once(ctx, func(ctx context.Context) error {
		s, now := newSchedule(e.plane, e.config.TopicsPerPage, 0, e.worker.Random), e.worker.Clock.Now()
		if err := s.refresh(ctx, now); err != nil {
			return err
		}
		return e.enforceDue(ctx, s, now, &totals)
	})
	return totals, err
}

// enforceDue takes the turns that have come by now. Those that failed keep theirs.
func (e *RetentionEnforcer) enforceDue(ctx context.Context, s *schedule, now time.Time, totals *RetentionTotals) error {
	due := s.take(now)
	err := inRequests(ctx, due, e.config.PartitionsPerRequest, func(due []turn) error { return e.enforce(ctx, s, due, totals) })
	for _, t := range due {
		if t.topic != nil {
			s.put(t)
		}
	}
	if totals.BatchesDeleted > 0 {
		e.worker.Logger.Info("removed what is past its retention", "partitions", totals.Partitions, "batches", totals.BatchesDeleted, "bytes", totals.BytesDeleted)
	}
	return err
}

// enforce makes one request, clears the turns, and gives the partitions new ones.
func (e *RetentionEnforcer) enforce(ctx context.Context, s *schedule, due []turn, totals *RetentionTotals) error {
	request := ops.EnforceRetentionRequest{MaxBatchesPerRequest: e.config.RetentionMaxBatches}
	for _, t := range due {
		request.Requests = append(request.Requests, ops.EnforceRetention{TopicID: t.topic.id, Partition: t.partition,
			RetentionBytes: t.topic.policy.bytes, RetentionMs: t.topic.policy.ms})
	}
	answer, err := e.plane.EnforceRetention(ctx, &request)
	if err != nil {
		return err
	}
	now := e.worker.Clock.Now()
	for i, a := range answer.Responses {
		t := due[i]
		due[i] = turn{}
		if a.Error != ops.None {
			s.forget(t)
			continue
		}
		totals.Partitions++
		totals.BatchesDeleted += a.BatchesDeleted
		totals.BytesDeleted += a.BytesDeleted
		e.batches.Add(float64(a.BatchesDeleted))
		e.bytes.Add(float64(a.BytesDeleted))
		t.at = now.Add(e.nextTurn(s, a.BatchesDeleted))
		s.put(t)
	}
	return nil
}

// nextTurn comes soon after one that took as much as the cap allows.
func (e *RetentionEnforcer) nextTurn(s *schedule, deleted int64) time.Duration {
	if e.config.RetentionMaxBatches > 0 && deleted >= e.config.RetentionMaxBatches {
		e.capped.Inc()
		return e.gathering()
	}
	return s.draw()
}
