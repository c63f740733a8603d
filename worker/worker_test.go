package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

var errGone = ops.Errorf(ops.NoLeader, "none is known")

func newTestWorker(logger *slog.Logger) (*Worker, *clockwork.FakeClock) {
	clock := clockwork.NewFakeClock()
	registry := prometheus.NewRegistry()
	return New("w", Metrics{Prefix: "w", Registerer: registry},
		Deps{Clock: clock, Random: func() float64 { return 0.5 }, Logger: logger, Registerer: registry}), clock
}

// waits returns when the worker waits for the clock.
func waits(t *testing.T, clock *clockwork.FakeClock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, clock.BlockUntilContext(ctx, 1))
}

func TestUnavailable(t *testing.T) {
	require.True(t, Unavailable(errGone))
	require.True(t, Unavailable(errors.Join(errGone)))
	require.False(t, Unavailable(ops.Errorf(ops.Internal, "a fault")))
	require.False(t, Unavailable(errors.New("no error object")))
	require.False(t, Unavailable(nil))
}

func TestBackoff(t *testing.T) {
	for failures, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000} {
		require.Equal(t, want*time.Millisecond/2, backoff(failures, 0))
		require.Equal(t, want*time.Millisecond*3/4, backoff(failures, 0.5))
	}
	require.Equal(t, maxBackoff/2, backoff(1000, 0))
}

// Failures are said when they begin, change and end, a control plane that is away apart
// from errors; after a success the next failure begins with the shortest wait.
func TestRepeat(t *testing.T) {
	var log bytes.Buffer
	w, clock := newTestWorker(slog.New(slog.NewTextHandler(&log, nil)))
	broken := errors.New("broken")
	results := []error{errGone, errGone, broken, broken, nil, broken, nil}
	pauses := []time.Duration{75, 150, 300, 600, 60_000, 75}
	began := make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i := 0
		w.Repeat(ctx, func() (time.Duration, error) {
			began <- clock.Now()
			i++
			return time.Minute, w.Once(ctx, func(context.Context) error { return results[i-1] })
		})
	}()
	last := <-began
	for _, pause := range pauses {
		waits(t, clock)
		clock.Advance(pause*time.Millisecond - time.Nanosecond)
		waits(t, clock)
		clock.Advance(time.Nanosecond)
		next := <-began
		require.Equal(t, pause*time.Millisecond, next.Sub(last))
		last = next
	}
	waits(t, clock)
	require.Zero(t, testutil.ToFloat64(w.metrics.backoff))
	cancel()
	<-done
	require.Equal(t, 7.0, testutil.ToFloat64(w.metrics.cycles))
	require.Equal(t, 3.0, testutil.ToFloat64(w.metrics.errors))
	require.Equal(t, 2.0, testutil.ToFloat64(w.metrics.unavailable))
	require.Equal(t, 1, strings.Count(log.String(), "the control plane is unavailable"))
	require.Equal(t, 2, strings.Count(log.String(), "fails and goes on trying"))
	require.Equal(t, 2, strings.Count(log.String(), "works again"))
	require.Equal(t, 5, strings.Count(log.String(), "\n"))
}

// A worker that is stopped while it waits stops at once, and shows no backoff.
func TestRepeatStopped(t *testing.T) {
	w, clock := newTestWorker(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Repeat(ctx, func() (time.Duration, error) { return 0, errGone })
	}()
	waits(t, clock)
	require.Equal(t, 0.075, testutil.ToFloat64(w.metrics.backoff))
	cancel()
	<-done
	require.Zero(t, testutil.ToFloat64(w.metrics.backoff))
}

// A cycle that was stopped has not failed, and one that waits for its turn ends with
// its context.
func TestOnceStopped(t *testing.T) {
	w, _ := newTestWorker(nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.Once(ctx, func(context.Context) error {
		short, end := context.WithTimeout(ctx, time.Millisecond)
		defer end()
		require.ErrorIs(t, w.Once(short, func(context.Context) error { return errors.New("two at once") }), context.DeadlineExceeded)
		cancel()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, testutil.ToFloat64(w.metrics.errors))
	require.Equal(t, 1.0, testutil.ToFloat64(w.metrics.cycles))
	require.NoError(t, w.Once(t.Context(), func(context.Context) error { return nil }), "the turn is given back")
}
