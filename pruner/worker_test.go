package pruner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestConfigValidate(t *testing.T) {
	c := DefaultConfig()
	require.NoError(t, c.Validate())
	c.ExpireMaxRows = 0
	require.EqualError(t, c.Validate(), "ExpireMaxRows: 0 must be at least 1")
	c = DefaultConfig()
	c.ReportInterval = 0
	require.EqualError(t, c.Validate(), "ReportInterval: 0s must be at least 1ms")
}

func TestBackoff(t *testing.T) {
	for failures, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000} {
		require.Equal(t, want*time.Millisecond/2, backoff(failures, 0))
		require.Equal(t, want*time.Millisecond*3/4, backoff(failures, 0.5))
	}
	require.Equal(t, maxBackoff/2, backoff(1000, 0))
}

// Errors are said each time, a control plane that is away once; a worker that works
// again says so, and its next failure begins with the shortest wait.
func TestLoop(t *testing.T) {
	c := newCluster(t)
	var log bytes.Buffer
	c.deps.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := newWorker("w", c.deps, family{prefix: "w", registerer: c.registry}.cycles())
	gone, broken := ops.Errorf(ops.NoLeader, "none"), errors.New("broken")
	results := []error{gone, gone, broken, broken, nil, broken, nil}
	waits := []time.Duration{75, 150, 300, 600, 60_000, 75, 60_000}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i := 0
		w.loop(ctx, func() (time.Duration, error) {
			i++
			return time.Minute, w.cycle(ctx, func() error { return results[i-1] })
		})
	}()
	for i, wait := range waits {
		c.waiting(1)
		require.Equal(t, float64(i+1), c.value("cpnode_w_cycles_total"))
		if i == len(waits)-1 {
			break
		}
		c.clock.Advance(wait*time.Millisecond - time.Nanosecond)
		require.Equal(t, float64(i+1), c.value("cpnode_w_cycles_total"))
		c.clock.Advance(time.Nanosecond)
		eventually(t, "the next cycle begins", func() bool { return c.value("cpnode_w_cycles_total") == float64(i+2) })
	}
	cancel()
	<-done
	require.Equal(t, 3.0, c.value("cpnode_w_errors_total"))
	require.Equal(t, 2.0, c.value("cpnode_w_unavailable_total"))
	require.Equal(t, 1, strings.Count(log.String(), "the control plane is unavailable"))
	require.Equal(t, 3, strings.Count(log.String(), "a cycle failed"))
	require.Equal(t, 2, strings.Count(log.String(), "works again"))
}

// A cycle that was stopped has not failed.
func TestCycleStopped(t *testing.T) {
	c := newCluster(t)
	w := newWorker("w", c.deps, family{prefix: "w", registerer: c.registry}.cycles())
	ctx, cancel := context.WithCancel(t.Context())
	w.loop(ctx, func() (time.Duration, error) {
		return 0, w.cycle(ctx, func() error { cancel(); return ctx.Err() })
	})
	require.Zero(t, c.value("cpnode_w_errors_total"))
	require.Equal(t, 1.0, c.value("cpnode_w_cycles_total"))
}
