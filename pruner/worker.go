package pruner

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
)

// Deps are what every worker is given. The zero value will do.
type Deps struct {
	// Clock is what a worker waits by and reads the time from; nil is the real one.
	Clock clockwork.Clock
	// Random draws from [0, 1), from any goroutine; nil is math/rand's.
	Random func() float64
	// Logger takes a line for each change of a worker's state, and for each cycle
	// that did something; nil drops them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none. A worker registers when it is
	// made, so it is made once and runs as often as its node leads.
	Registerer prometheus.Registerer
}

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
)

// worker is what all workers have in common: cycles that are counted, and pauses
// between them.
type worker struct {
	clock   clockwork.Clock
	random  func() float64
	logger  *slog.Logger
	metrics *cycleMetrics
}

// newWorker takes the worker's name for its log lines, and for its metrics unless
// they have another prefix.
func newWorker(name string, d Deps, m *cycleMetrics) worker {
	if d.Clock == nil {
		d.Clock = clockwork.NewRealClock()
	}
	if d.Random == nil {
		d.Random = rand.Float64
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return worker{clock: d.Clock, random: d.Random, logger: d.Logger.With("worker", name), metrics: m}
}

// cycle runs and counts one cycle. One that was stopped, or that found the control
// plane unavailable, has not failed.
func (w *worker) cycle(ctx context.Context, run func() error) error {
	began := w.clock.Now()
	w.metrics.cycles.Inc()
	err := run()
	switch {
	case err == nil:
		w.metrics.duration.Observe(w.clock.Since(began).Seconds())
		w.metrics.lastSuccess.Set(float64(w.clock.Now().UnixMilli()) / 1000)
	case ctx.Err() != nil:
	case unavailable(err):
		w.metrics.unavailable.Inc()
	default:
		w.metrics.errors.Inc()
	}
	return err
}

// loop runs one cycle after the other until ctx ends. A cycle says how long to wait
// for the next; after an error the wait is that of the backoff.
func (w *worker) loop(ctx context.Context, cycle func() (time.Duration, error)) {
	var t troubles
	for ctx.Err() == nil {
		wait, err := cycle()
		if ctx.Err() != nil {
			return
		}
		w.sleep(ctx, w.pause(&t, wait, err))
	}
}

// troubles are the failures since the last cycle that succeeded.
type troubles struct {
	failures    int
	unavailable bool
}

func (w *worker) pause(t *troubles, wait time.Duration, err error) time.Duration {
	if err == nil {
		if t.failures > 0 {
			w.logger.Info("works again")
		}
		*t = troubles{}
		w.metrics.backoff.Set(0)
		return wait
	}
	wait = backoff(t.failures, w.random())
	t.failures++
	switch gone := unavailable(err); {
	case gone && !t.unavailable:
		w.logger.Info("the control plane is unavailable", "error", err)
		t.unavailable = true
	case !gone:
		w.logger.Warn("a cycle failed", "error", err, "next", wait)
		t.unavailable = false
	}
	w.metrics.backoff.Set(wait.Seconds())
	return wait
}

// backoff is half to the whole of a time that doubles with each failure before.
func backoff(failures int, random float64) time.Duration {
	whole := maxBackoff
	if failures < 10 { // 100 ms doubled ten times is beyond the maximum
		whole = min(firstBackoff<<failures, maxBackoff)
	}
	return whole/2 + time.Duration(random*float64(whole/2))
}

func (w *worker) sleep(ctx context.Context, d time.Duration) {
	timer := w.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.Chan():
	}
}

// unavailable says whether an error is that of a control plane that cannot answer
// now, and not of what it was asked.
func unavailable(err error) bool {
	switch code(err) {
	case ops.NoLeader, ops.ShuttingDown, ops.OutcomeUnknown, ops.NotCaughtUp, ops.Overloaded:
		return true
	}
	return false
}

// overItem says whether an error may be that of one item of a request.
func overItem(err error) bool {
	switch code(err) {
	case ops.InvalidRequest, ops.RequestTooLarge, ops.Internal:
		return true
	}
	return false
}

func code(err error) ops.Code {
	var e *ops.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// inRequests sends items, at most n in a request. One that cannot be done leaves the
// others done; without a control plane, or when ctx ends, it stops.
func inRequests[T any](ctx context.Context, items []T, n int, send func([]T) error) error {
	var failures []error
	for request := range slices.Chunk(items, n) {
		err := divide(request, send)
		if err != nil {
			failures = append(failures, err)
		}
		if err != nil && (ctx.Err() != nil || !overItem(err)) {
			break
		}
	}
	return errors.Join(failures...)
}

// divide sends items in one request, and in halves where that fails over one of
// them.
func divide[T any](items []T, send func([]T) error) error {
	err := send(items)
	if err == nil || len(items) == 1 || !overItem(err) {
		return err
	}
	half := len(items) / 2
	return errors.Join(divide(items[:half], send), divide(items[half:], send))
}
