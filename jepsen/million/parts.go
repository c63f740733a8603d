package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/jepsen/report"
)

const (
	readyTarget    = 2 * time.Second // beyond the election
	snapshotTarget = 2.0             // p99 of commits over that without
	refillTarget   = 3.0             // the same
)

// killAll kills all nodes while clients commit, and starts them again.
func (h *harness) killAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := h.load.start(ctx, h.clients)
	time.Sleep(h.point / 4)
	for _, n := range h.cluster.Nodes {
		n.Kill()
	}
	cancel() // their last commits have no outcome
	_, _ = l.stop()
	began := time.Now()
	for _, n := range h.cluster.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	starts := make([]start, len(h.cluster.Nodes))
	var failures []error
	done := make(chan error)
	for i, n := range h.cluster.Nodes {
		go func() { done <- starts[i].watch(context.WithoutCancel(ctx), n, began) }()
	}
	for range starts {
		failures = append(failures, <-done)
	}
	h.out.Title("All nodes killed under load and started")
	for i, s := range starts {
		beyond := max(0, s.ready-s.leader)
		h.out.Judged("node "+h.cluster.Nodes[i].ID, fmt.Sprintf("a leader after %s, ready after %s: %s later", report.Short(s.leader), report.Short(s.ready), report.Short(beyond)),
			"ready in under 2 s beyond the election", beyond < readyTarget)
	}
	return errors.Join(failures...)
}

// start is how long a node took until it knew a leader, and until it was ready.
type start struct{ leader, ready time.Duration }

func (s *start) watch(ctx context.Context, n *cluster.Node, began time.Time) error {
	p := newProbe(n)
	defer p.close()
	return await(ctx, "node "+n.ID+" to be ready", func() bool {
		if s.leader == 0 && p.leader(ctx) != "" {
			s.leader = time.Since(began)
		}
		if s.leader == 0 || !p.ready(ctx) {
			return false
		}
		s.ready = time.Since(began)
		return true
	})
}

// snapshots measures commits while every node takes one snapshot after the other,
// between two halves with the usual ones.
func (h *harness) snapshots(ctx context.Context) error {
	before, err := h.load.measure(ctx, h.clients, h.point)
	if err != nil {
		return err
	}
	if err := h.restart(ctx, snapshotFlags(100*time.Millisecond, 1, 8192)); err != nil {
		return err
	}
	during, err := h.load.measure(ctx, h.clients, h.point)
	if err != nil {
		return err
	}
	taken, err := snapshotsTaken(ctx, h.cluster.Nodes)
	if err != nil {
		return err
	}
	if err := h.restart(ctx, h.usual()); err != nil {
		return err
	}
	h.out.Title("Snapshots, %d clients", h.clients)
	commits(h.out, "without", fmt.Sprintf("%d snapshots meanwhile", taken), before, during, snapshotTarget)
	if taken == 0 {
		return errors.New("no snapshot was taken")
	}
	return nil
}

// commits are two lines of commits, the second with a bound on its p99 over the first's.
func commits(r *report.Report, without, with string, before, during sample, most float64) {
	r.Fact(without, "%s", before)
	ratio := float64(during.quantile(0.99)) / float64(before.quantile(0.99))
	r.Judged(with, during.String(), fmt.Sprintf("p99 at most %gx (%.2f)", most, ratio), ratio <= most)
}

func (h *harness) restart(ctx context.Context, flags []string) error {
	if err := h.cluster.Stop(); err != nil {
		return err
	}
	h.flags(flags...)
	if err := h.cluster.Start(ctx); err != nil {
		return err
	}
	_, err := h.cluster.Leader(ctx)
	return err
}

// wipeOne removes all that a follower has, starts it, and waits until it votes.
func (h *harness) wipeOne(ctx context.Context) error {
	leader, err := h.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	node := h.cluster.Nodes[0]
	if node == leader {
		node = h.cluster.Nodes[1]
	}
	before, err := h.load.measure(ctx, h.clients, h.point)
	if err != nil {
		return err
	}
	w := &refill{node: node, leader: newProbe(leader), self: newProbe(node)}
	defer w.leader.close()
	defer w.self.close()
	if w.lost, err = w.leader.instance(ctx, node.ID); err != nil {
		return err
	}
	node.Kill()
	if err := node.Wipe(); err != nil {
		return err
	}
	if err := w.watch(ctx, h); err != nil {
		return err
	}
	copied, err := copyTime(filepath.Join(node.Dir, stateFile), filepath.Join(h.dir, "copy"))
	if err != nil {
		return err
	}
	bytes := float64(size(node.Dir, stateFile)) / 1e6
	h.out.Title("Node %s wiped and started, %d clients", node.ID, h.clients)
	commits(h.out, "before", "from its first byte until it was ready", before, w.during, refillTarget)
	h.out.Fact("from then until it voted", "%s", w.after)
	h.out.Fact("times since its start", "first byte %s, installed %s, ready %s, a voter %s", report.Short(w.begun), report.Short(w.installed), report.Short(w.ready), report.Short(w.votes))
	h.out.Fact("transfer, checks included", "%.1f MB, %.0f MB/s; a plain copy, synced: %.0f MB/s", bytes, bytes/(w.installed-w.begun).Seconds(), bytes/copied.Seconds())
	h.out.Judged("a voter before it was ready", fmt.Sprint(w.early), "no", !w.early)
	return nil
}

// refill is how a wiped node came back, in times since it was started.
type refill struct {
	node                           *cluster.Node
	leader, self                   *probe
	lost                           string // its directory before
	begun, installed, ready, votes time.Duration
	during, after                  sample
	early                          bool // it voted without a state
}

// someBytes of a state have come when there are as many: while a node starts, an
// empty one is there for a moment.
const someBytes = 256 << 10

func (w *refill) watch(ctx context.Context, h *harness) error {
	ahead := h.load.start(ctx, h.clients)
	began := time.Now()
	if err := w.node.Start(); err != nil {
		return err
	}
	there := func() bool { return size(w.node.Dir, installFile) >= someBytes }
	// A small one may be in its place before anybody has looked.
	arrived := func() bool { return there() || size(w.node.Dir, stateFile) >= someBytes }
	err := await(ctx, "the first byte of a state", arrived)
	w.begun = time.Since(began)
	if _, stopped := ahead.stop(); err != nil || stopped != nil {
		return errors.Join(err, stopped)
	}
	beside := h.load.start(ctx, h.clients)
	err = await(ctx, "the state", func() bool { return !there() })
	w.installed = time.Since(began)
	w.early = w.leader.votes(ctx, w.node.ID, w.lost)
	if err == nil {
		err = await(ctx, "node "+w.node.ID+" to be ready", func() bool { return w.self.ready(ctx) })
	}
	w.ready = time.Since(began)
	var stopped error
	if w.during, stopped = beside.stop(); err != nil || stopped != nil {
		return errors.Join(err, stopped)
	}
	beside = h.load.start(ctx, h.clients)
	err = await(ctx, "node "+w.node.ID+" to vote", func() bool { return w.leader.votes(ctx, w.node.ID, w.lost) })
	w.votes = time.Since(began)
	w.after, stopped = beside.stop()
	return errors.Join(err, stopped)
}

// copyTime copies a file as anybody would, and syncs it.
func copyTime(from, to string) (time.Duration, error) {
	source, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = io.Copy(target, source)
	err = errors.Join(err, target.Sync(), target.Close())
	return time.Since(began), errors.Join(err, os.Remove(to))
}

// check stops the nodes and lets cpnode check their files.
func (h *harness) check(ctx context.Context) error {
	if err := h.cluster.StopAlike(ctx); err != nil {
		return err
	}
	h.out.Title("Files of the stopped nodes")
	digests := map[string]bool{}
	for _, n := range h.cluster.Nodes {
		c, err := h.cluster.CheckState(ctx, n)
		if err != nil {
			return err
		}
		digests[c.Digest] = true
		h.out.Judged("node "+n.ID, fmt.Sprintf("%d batches, applied %d, digest %s", c.Batches, c.AppliedIndex, c.Digest),
			"clean, with all batches", c.Clean && c.Batches >= h.batches)
	}
	h.out.Judged("different digests", fmt.Sprint(len(digests)), "one", len(digests) == 1)
	return nil
}
