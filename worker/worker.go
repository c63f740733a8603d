package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
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

// Worker carries out cycles. It is made once, and may be used from any goroutine.
type Worker struct {
	Clock   clockwork.Clock
	Random  func() float64
	Logger  *slog.Logger
	metrics *cycleMetrics
	turn    chan struct{} // holds a token while no cycle is under way
}

// New makes a worker whose log lines carry name, and whose cycles are counted under
// the metrics' prefix.
func New(name string, m Metrics, d Deps) *Worker {
	if d.Clock == nil {
		d.Clock = clockwork.NewRealClock()
	}
	if d.Random == nil {
		d.Random = rand.Float64
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Worker{Clock: d.Clock, Random: d.Random, Logger: d.Logger.With("worker", name), metrics: newCycleMetrics(m), turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

// Once carries out one cycle, after one that is under way, and counts it. A cycle that
// was stopped, or that found the control plane unavailable, has not failed.
func (w *Worker) Once(ctx context.Context, cycle func(context.Context) error) error {
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := w.Clock.Now()
	w.metrics.cycles.Inc()
	err := cycle(ctx)
	switch {
	case err == nil:
		w.metrics.duration.Observe(w.Clock.Since(began).Seconds())
		w.metrics.lastSuccess.Set(float64(w.Clock.Now().UnixMilli()) / 1000)
	case ctx.Err() != nil:
	case Unavailable(err):
		w.metrics.unavailable.Inc()
	default:
		w.metrics.errors.Inc()
	}
	return err
}

// Unavailable says whether an error is that of a control plane that cannot answer now,
// and not of what it was asked.
func Unavailable(err error) bool {
	var e *ops.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case ops.NoLeader, ops.ShuttingDown, ops.OutcomeUnknown, ops.NotCaughtUp, ops.Overloaded:
		return true
	}
	return false
}

// Repeat calls step, which carries out a cycle by Once and says how long to wait for
// the next, at once and until ctx ends. After an error the wait is that of the backoff.
func (w *Worker) Repeat(ctx context.Context, step func() (time.Duration, error)) {
	defer w.metrics.backoff.Set(0)
	var t troubles
	for ctx.Err() == nil {
		wait, err := step()
		if ctx.Err() != nil {
			return
		}
		w.sleep(ctx, w.pause(&t, wait, err))
	}
}

func (w *Worker) sleep(ctx context.Context, d time.Duration) {
	timer := w.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.Chan():
	}
}

// troubles are the failures since the last cycle that succeeded.
type troubles struct {
	failures    int
	unavailable bool
}

// pause is the wait after a cycle. Log lines say when the failures begin, become
// another kind, and end.
func (w *Worker) pause(t *troubles, wait time.Duration, err error) time.Duration {
	if err == nil {
		if t.failures > 0 {
			w.Logger.Info("works again", "failures", t.failures)
		}
		*t = troubles{}
		w.metrics.backoff.Set(0)
		return wait
	}
	away := Unavailable(err)
	switch {
	case t.failures > 0 && away == t.unavailable:
		w.Logger.Debug("still fails", "failures", t.failures, "error", err)
	case away:
		w.Logger.Info("the control plane is unavailable", "error", err)
	default:
		w.Logger.Warn("fails and goes on trying", "error", err)
	}
	wait = backoff(t.failures, w.Random())
	*t = troubles{t.failures + 1, away}
	w.metrics.backoff.Set(wait.Seconds())
	return wait
}

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Minute
)

// backoff is half to the whole of a time that doubles with each failure before.
func backoff(failures int, random float64) time.Duration {
	whole := maxBackoff
	if failures < 10 { // 100 ms doubled ten times is beyond the maximum
		whole = min(firstBackoff<<failures, maxBackoff)
	}
	return whole/2 + time.Duration(random*float64(whole/2))
}
