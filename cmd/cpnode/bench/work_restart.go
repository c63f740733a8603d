package bench

import (
	"context"
	"fmt"
	"time"
)

// restarts are how often a start is repeated; the median counts.
const restarts = 5

const (
	restartTarget = 2 * time.Second        // beyond the election
	startTarget   = 500 * time.Millisecond // of one node on an empty directory
)

// restart measures the time from opening a closed node until it is ready, with
// many batches and with none: the difference is what the state costs, the rest
// is the election.
func (r *runner) restart(ctx context.Context) error {
	if err := r.firstStart(ctx); err != nil {
		return err
	}
	s, err := r.many(ctx)
	if err != nil {
		return err
	}
	return r.withCluster(ctx, 1, func(empty *cluster) error {
		r.step("restart: %d batches", s.batches)
		none, err := empty.reopen(ctx)
		if err != nil {
			return err
		}
		full, err := s.reopen(ctx)
		if err != nil {
			return err
		}
		line := r.add("restart", fmt.Sprintf("1 node, %d batches", s.batches), "starts/s", full.figures()).against("empty", none.figures())
		line.within("p50 under 2 s beyond an empty node", max(0, line.P50-line.Floor.P50), microseconds(restartTarget))
		return nil
	})
}

// firstStart measures nodes on directories that are empty.
func (r *runner) firstStart(ctx context.Context) error {
	r.step("restart: first start")
	s := sample{}
	for range restarts {
		began := time.Now()
		c, err := newCluster(ctx, r.dir, 1)
		if err != nil {
			return err
		}
		s = join(s, sample{latencies: []time.Duration{time.Since(began)}})
		if err := c.remove(); err != nil {
			return err
		}
	}
	line := r.add("restart", "1 node, first start on an empty directory", "", s.figures())
	line.within("p50 under 500 ms", line.P50, microseconds(startTarget))
	return nil
}

// reopen closes and opens the cluster a few times and measures the opening.
func (c *cluster) reopen(ctx context.Context) (sample, error) {
	s := sample{}
	for range restarts {
		if err := c.close(); err != nil {
			return s, err
		}
		one, err := repeat(ctx, 1, func(int) error { return c.open(ctx) })
		if err != nil {
			return s, err
		}
		s = join(s, one)
	}
	return s, nil
}

// idleCores is how much of a core three nodes at rest may use.
const idleCores = 0.02

// idle measures what nodes at rest use and log.
func (r *runner) idle(ctx context.Context) error {
	for _, nodes := range r.options.Nodes {
		if err := r.withCluster(ctx, nodes, func(c *cluster) error { return r.idleOn(ctx, c) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) idleOn(ctx context.Context, c *cluster) error {
	r.step("idle: %s", nodesText(len(c.nodes)))
	rest := 2 * r.options.Duration
	before, err := cpuTime()
	if err != nil {
		return err
	}
	first := c.leader.Status().LastIndex
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := cpuTime()
	if err != nil {
		return err
	}
	cores := (after - before).Seconds() / rest.Seconds()
	logged := c.leader.Status().LastIndex - first
	line := r.add("idle", nodesText(len(c.nodes))+" at rest", "% core", Figures{Rate: 100 * cores})
	if len(c.nodes) > 1 {
		line.atMost("under 2 % of a core", 100*cores, 100*idleCores)
	}
	line.atMost("nothing is logged", float64(logged), 0)
	return nil
}
