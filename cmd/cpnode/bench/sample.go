package bench

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is what one measured point saw: the sorted latencies of its calls.
type sample struct {
	took      time.Duration
	used      usage
	latencies []time.Duration
}

// rate is calls per second.
func (s sample) rate() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(len(s.latencies)) / s.took.Seconds()
}

// quantile is the latency that a share q of the calls did not exceed (nearest
// rank); 0 without calls.
func (s sample) quantile(q float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(s.latencies))))
	return s.latencies[min(max(rank, 1), len(s.latencies))-1]
}

func (s sample) max() time.Duration { return s.quantile(1) }

// join is one sample of several, as if they had been one after the other.
func join(samples ...sample) sample {
	var all sample
	for _, s := range samples {
		all.took += s.took
		all.used = all.used.plus(s.used)
		all.latencies = append(all.latencies, s.latencies...)
	}
	slices.Sort(all.latencies)
	return all
}

// call is one request of one client, numbered from 0.
type call func(ctx context.Context, client int) error

// clients is a closed loop of clients that run until they are stopped.
type clients struct {
	began   time.Time
	before  usage
	group   *errgroup.Group
	failed  <-chan struct{} // closed at the first error
	stopped atomic.Bool

	mu        sync.Mutex
	latencies []time.Duration
}

// startClients lets n clients repeat fn. The first error stops all of them.
func startClients(ctx context.Context, n int, fn call) *clients {
	group, ctx := errgroup.WithContext(ctx)
	c := &clients{began: time.Now(), before: used(), group: group, failed: ctx.Done()}
	for i := range n {
		group.Go(func() error { return c.loop(ctx, i, fn) })
	}
	return c
}

func (c *clients) loop(ctx context.Context, client int, fn call) error {
	mine := make([]time.Duration, 0, 4096)
	for len(mine) == 0 || !c.stopped.Load() { // once at least: what is measured may be over soon
		began := time.Now()
		if err := fn(ctx, client); err != nil {
			return err
		}
		mine = append(mine, time.Since(began))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latencies = append(c.latencies, mine...)
	return nil
}

// stop waits for the calls in flight, which count.
func (c *clients) stop() (sample, error) {
	c.stopped.Store(true)
	err := c.group.Wait()
	took, spent := time.Since(c.began), used().minus(c.before)
	slices.Sort(c.latencies)
	return sample{took: took, used: spent, latencies: c.latencies}, err
}

// measure runs n clients for d, after a warm-up of a fifth of it that is not counted.
func measure(ctx context.Context, n int, d time.Duration, fn call) (sample, error) {
	if _, err := runFor(ctx, n, d/5, fn); err != nil {
		return sample{}, err
	}
	return runFor(ctx, n, d, fn)
}

func runFor(ctx context.Context, n int, d time.Duration, fn call) (sample, error) {
	c := startClients(ctx, n, fn)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.failed:
	}
	return c.stop()
}

// repeat calls fn n times in a row.
func repeat(ctx context.Context, n int, fn func(i int) error) (sample, error) {
	s := sample{latencies: make([]time.Duration, 0, n)}
	began := time.Now()
	for i := range n {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		start := time.Now()
		if err := fn(i); err != nil {
			return s, err
		}
		s.latencies = append(s.latencies, time.Since(start))
	}
	s.took = time.Since(began)
	slices.Sort(s.latencies)
	return s, nil
}
