package purger

import (
	"context"
	"log/slog"
	"time"
)

// worker is what both workers are around their cycle: one at a time, each followed by a
// wait.
type worker struct {
	Deps
	name     string // of log lines
	interval time.Duration
	metrics  *workerMetrics
	turn     chan struct{} // holds one token: cycles do not overlap
}

const (
	// A cycle that its cap ended is followed by the next after a part of the interval.
	saturatedShare = 10
	saturatedLeast = time.Second

	backoffLeast = 100 * time.Millisecond
	backoffMost  = time.Minute
)

func newWorker(name, metricsPrefix string, interval time.Duration, deps Deps) worker {
	w := worker{Deps: deps.withDefaults(), name: name, interval: interval, turn: make(chan struct{}, 1)}
	w.metrics = newWorkerMetrics(metricsPrefix, w.Deps)
	w.turn <- struct{}{}
	return w
}

// run repeats cycles until ctx ends. What the gauges say of waiting work ends with it:
// from then on it is for another node to say.
func (w *worker) run(ctx context.Context, cycle func(context.Context) (saturated bool, err error)) {
	defer w.metrics.reset()
	failures := 0
	for ctx.Err() == nil {
		saturated, err := cycle(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err == nil && failures > 0:
			w.Logger.Info(w.name+" works again", "failures", failures)
			failures = 0
		case err != nil:
			failures++
			level := slog.LevelDebug
			if failures == 1 {
				level = slog.LevelWarn
			}
			w.Logger.Log(ctx, level, w.name+" fails and goes on trying", "error", err)
		}
		w.wait(ctx, w.pause(saturated, failures))
	}
}

// pause is the time until the next cycle.
func (w *worker) pause(saturated bool, failures int) time.Duration {
	w.metrics.backoff.Set(0)
	if failures > 0 {
		most := backoff(failures)
		pause := most/2 + time.Duration(w.Rand()*float64(most/2))
		w.metrics.backoff.Set(pause.Seconds())
		return pause
	}
	if saturated {
		return min(w.interval, max(w.interval/saturatedShare, saturatedLeast))
	}
	return w.interval
}

// backoff is the longest pause after so many failures in a row, at least one.
func backoff(failures int) time.Duration {
	pause := backoffLeast
	for i := 1; i < failures && pause < backoffMost; i++ {
		pause *= 2
	}
	return min(pause, backoffMost)
}

func (w *worker) wait(ctx context.Context, pause time.Duration) {
	timer := w.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.Chan():
	case <-ctx.Done():
	}
}

// once carries out one cycle, when no other is under way. One that ends because ctx
// does is neither a success nor an error.
func (w *worker) once(ctx context.Context, cycle func(context.Context) (saturated bool, err error)) error {
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := w.Clock.Now()
	saturated, err := cycle(ctx)
	if err != nil && ctx.Err() != nil {
		return err
	}
	w.metrics.cycles.Inc()
	w.metrics.durations.Observe(w.Clock.Since(began).Seconds())
	if err != nil {
		w.metrics.errors.Inc()
		return err
	}
	if saturated {
		w.metrics.saturated.Inc()
	}
	w.metrics.lastSuccess.Set(seconds(w.Clock.Now().UnixMilli()))
	return nil
}
