package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

// restarts are how often a start is repeated; the median counts.
const restarts = 5

const (
	restartTarget = 2 * time.Second        // beyond the election
	startTarget   = 500 * time.Millisecond // of one node on an empty directory
)

// restart measures the time from opening nodes until they are ready. Of one node,
// with many batches and with none: the difference is what the state costs, the
// rest is the election. Of three, beyond the moment when a leader is known.
func (r *runner) restart(ctx context.Context) error {
	if err := r.firstStart(ctx); err != nil {
		return err
	}
	for _, again := range []struct {
		nodes int
		run   func(context.Context) error
	}{{1, r.restartClosed}, {3, r.restartKilled}} {
		if !slices.Contains(r.options.Nodes, again.nodes) {
			continue
		}
		if err := again.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restartClosed is of one node that was closed.
func (r *runner) restartClosed(ctx context.Context) error {
	s, err := r.many(ctx, 1)
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

// restartKilled is of three nodes that died at once, as if by kill -9: they are
// opened on copies of the files that the running ones had, which no process has
// closed. Commits stop just before, so that a copy is of one moment; what the last
// sync point lacks is still to be read from the log.
func (r *runner) restartKilled(ctx context.Context) error {
	s, err := r.many(ctx, 3)
	if err != nil {
		return err
	}
	r.step("restart: 3 nodes, %d batches, killed", s.batches)
	var elected, ready []time.Duration
	for range killedStarts {
		e, d, err := s.reviveOnce(ctx, filepath.Join(r.dir, "killed"))
		if err != nil {
			return err
		}
		elected, ready = append(elected, e), append(ready, d)
	}
	slices.Sort(elected)
	slices.Sort(ready)
	line := r.add("restart", fmt.Sprintf("3 nodes, %d batches, killed, until all are ready", s.batches), "", sample{latencies: ready}.figures())
	line.against("until a leader is known to all", sample{latencies: elected}.figures())
	line.within("p50 under 2 s beyond the election", line.P50-line.Floor.P50, microseconds(restartTarget))
	return nil
}

// killedStarts are fewer than restarts: each copies three nodes.
const killedStarts = 3

// reviveOnce commits for a moment, copies what the nodes have on disk, and opens
// nodes on the copies: how long until all know a leader, and until all are ready.
func (s *stored) reviveOnce(ctx context.Context, dir string) (elected, ready time.Duration, err error) {
	commit := newFiles(s.topic, manyClients, storedPerFile, false).commit(s.commitFile)
	if _, err := runFor(ctx, manyClients, killedAfter, commit); err != nil {
		return 0, 0, err
	}
	if err := s.settle(ctx); err != nil {
		return 0, 0, err
	}
	killed := &cluster{dir: dir, configs: slices.Clone(s.configs)}
	for i := range killed.configs {
		config := &killed.configs[i]
		from := config.DataDir
		config.DataDir = filepath.Join(dir, config.NodeID)
		if err := os.CopyFS(config.DataDir, os.DirFS(from)); err != nil {
			return 0, 0, errors.Join(err, killed.remove())
		}
	}
	if err := s.close(); err != nil {
		return 0, 0, errors.Join(err, killed.remove())
	}
	began := time.Now()
	if err = killed.start(); err == nil {
		err = poll(ctx, "a leader that all know", func() bool {
			return !slices.ContainsFunc(killed.nodes, func(n *raftnode.Node) bool { return n.LeaderID() == "" })
		})
	}
	elected = time.Since(began)
	if err == nil {
		err = killed.awaitReady(ctx)
	}
	ready = time.Since(began)
	return elected, ready, errors.Join(err, killed.remove(), s.open(ctx))
}

// killedAfter is for how long there are commits before the files are copied.
const killedAfter = 300 * time.Millisecond

// settle waits until what is logged is in the state of all nodes.
func (c *cluster) settle(ctx context.Context) error {
	return poll(ctx, "all nodes to have applied all", func() bool {
		last := c.leader.Status().AppliedIndex
		return !slices.ContainsFunc(c.nodes, func(n *raftnode.Node) bool {
			at := n.Status()
			return at.AppliedIndex != last || at.LastIndex != c.leader.Status().LastIndex
		})
	})
}

// firstStart measures nodes on directories that are empty.
func (r *runner) firstStart(ctx context.Context) error {
	r.step("restart: first start")
	s := sample{}
	for range restarts {
		began := time.Now()
		c, err := newCluster(ctx, r.dir, 1, r.options.stateSync())
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
	before := used()
	first := c.leader.Status().LastIndex
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	cores := used().minus(before).cpu.Seconds() / rest.Seconds()
	logged := c.leader.Status().LastIndex - first
	line := r.add("idle", nodesText(len(c.nodes))+" at rest", "% core", Figures{Rate: 100 * cores})
	if len(c.nodes) > 1 {
		line.atMost("under 2 % of a core", 100*cores, 100*idleCores)
	}
	line.atMost("nothing is logged", float64(logged), 0)
	return nil
}
