package pruner

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

// RetentionControlPlane is what the retention enforcer needs of the control plane.
type RetentionControlPlane interface {
	ListTopics(context.Context, *ops.ListTopicsRequest, ...api.Option) (*ops.ListTopicsResponse, error)
	DescribeTopic(context.Context, *ops.DescribeTopicRequest, ...api.Option) (*ops.DescribeTopicResponse, error)
	EnforceRetention(context.Context, *ops.EnforceRetentionRequest, ...api.Option) (*ops.EnforceRetentionResponse, error)
}

// RetentionEnforcer removes batches of topics whose cleanup.policy has delete, by
// retention.ms and retention.bytes. Each partition has its own random schedule, so
// that the work of many is spread out.
type RetentionEnforcer struct {
	worker
	plane  RetentionControlPlane
	config Config

	// firstTurnMs is the earliest turn of Run's schedule, 0 when there is none.
	firstTurnMs atomic.Int64

	partitions     prometheus.Gauge
	batches, bytes prometheus.Counter
}

// RetentionTotals are what one cycle of the retention enforcer did.
type RetentionTotals struct {
	Partitions     int64 `json:"partitions"` // that were looked at
	BatchesDeleted int64 `json:"batches_deleted"`
	BytesDeleted   int64 `json:"bytes_deleted"`
}

// NewRetentionEnforcer makes an enforcer. The config is valid.
func NewRetentionEnforcer(plane RetentionControlPlane, config Config, deps Deps) *RetentionEnforcer {
	f := family{prefix: "retention_enforcer", registerer: deps.Registerer}
	e := &RetentionEnforcer{
		worker: newWorker("retention-enforcer", deps, f.cycles()),
		plane:  plane, config: config,
		partitions: f.gauge("partitions", "Partitions that are scheduled; 0 on a node that does not lead."),
		batches:    f.counter("batches_deleted_total", "Batches removed."),
		bytes:      f.counter("bytes_deleted_total", "Bytes of batches removed."),
	}
	f.gaugeFunc("schedule_lag_seconds", "How long the most overdue partition has waited for its turn; 0 when none is overdue.", e.lagSeconds)
	return e
}

func (e *RetentionEnforcer) lagSeconds() float64 {
	first := e.firstTurnMs.Load()
	if first == 0 {
		return 0
	}
	return max(0, e.clock.Since(time.UnixMilli(first)).Seconds())
}

// Run enforces each partition when its turn comes, until ctx ends.
func (e *RetentionEnforcer) Run(ctx context.Context) {
	s := newSchedule(e.plane, e.config.RetentionInterval, e.random)
	defer e.publish(&schedule{})
	var refreshAt time.Time
	e.loop(ctx, func() (time.Duration, error) {
		now := e.clock.Now()
		if !now.Before(refreshAt) {
			if err := e.refresh(ctx, s, now); err != nil {
				return 0, err
			}
			refreshAt = now.Add(e.config.RetentionInterval)
		}
		e.publish(s)
		err := e.catchUp(ctx, s, now)
		e.publish(s)
		return e.untilNext(s, refreshAt), err
	})
}

// refresh counts as a cycle when it fails: then there is none.
func (e *RetentionEnforcer) refresh(ctx context.Context, s *schedule, now time.Time) error {
	if err := s.refresh(ctx, now); err != nil {
		return e.cycle(ctx, func() error { return err })
	}
	return nil
}

// catchUp takes the turns that have come as one cycle; without any it is none.
func (e *RetentionEnforcer) catchUp(ctx context.Context, s *schedule, now time.Time) error {
	if first := s.first(); first.IsZero() || first.After(now) {
		return nil
	}
	_, err := e.enforceDue(ctx, s, now)
	return err
}

// untilNext gathers the turns of a while, so that not each makes a request.
func (e *RetentionEnforcer) untilNext(s *schedule, refreshAt time.Time) time.Duration {
	next := refreshAt
	if first := s.first(); !first.IsZero() && first.Before(next) {
		next = first
	}
	return max(e.clock.Until(next), e.gathering())
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
// which the cap left batches is not asked again.
func (e *RetentionEnforcer) RunOnce(ctx context.Context) (RetentionTotals, error) {
	s, now := newSchedule(e.plane, 0, e.random), e.clock.Now()
	if err := e.refresh(ctx, s, now); err != nil {
		return RetentionTotals{}, err
	}
	return e.enforceDue(ctx, s, now)
}

// enforceDue takes the turns that have come by now. Those that failed keep theirs.
func (e *RetentionEnforcer) enforceDue(ctx context.Context, s *schedule, now time.Time) (RetentionTotals, error) {
	var totals RetentionTotals
	due := s.take(now)
	err := e.cycle(ctx, func() error {
		return inRequests(ctx, due, e.config.PartitionsPerRequest, func(due []turn) error { return e.enforce(ctx, s, due, &totals) })
	})
	for _, t := range due {
		if t.topic != nil {
			s.put(t)
		}
	}
	if totals.BatchesDeleted > 0 {
		e.logger.Info("removed what is past its retention", "partitions", totals.Partitions, "batches", totals.BatchesDeleted, "bytes", totals.BytesDeleted)
	}
	return totals, err
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
	now := e.clock.Now()
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
		return e.gathering()
	}
	return s.draw()
}
