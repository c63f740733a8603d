package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
	"github.com/cpnode/cpnode/jepsen/workload"
)

const (
	// expected is about how long a tour takes, which says how many partitions its
	// operations are spread over.
	expected = 2 * time.Minute
	// readers of the tour: what keeps reads under way at each of three nodes.
	readers = 3 * workload.ReadersPerNode
)

// tour is a cluster whose membership changes, and its clients.
type tour struct {
	options
	out      io.Writer
	cluster  *cluster.Cluster // its nodes are the members, and those that are to be
	recorder *history.Recorder
	load     *workload.Workload
	old      *cluster.Node // was lost; a copy of its directory was kept
	shown    string        // the status that the timeline shows last
}

// run makes the directory, takes the tour in it, and judges it.
func run(ctx context.Context, o options, out io.Writer) error {
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return err
	}
	if err := cluster.Provide(ctx, o.binary, filepath.Join(o.dir, checker.BinaryFile)); err != nil {
		return err
	}
	if err := record(ctx, o, out); err != nil {
		return fmt.Errorf("%w\nseed %d, see the logs in %s", err, o.seed, o.dir)
	}
	report, err := checker.Check(ctx, o.dir, checker.DefaultConfig())
	if err != nil {
		return err
	}
	if err := report.Print(out); err != nil {
		return err
	}
	if !report.OK() {
		return errors.New("the tour does not hold")
	}
	return nil
}

// record takes the tour, from the first start of a node until all have stopped. No
// process is left.
func record(ctx context.Context, o options, out io.Writer) (err error) {
	t := &tour{options: o, out: out}
	if t.cluster, err = cluster.New(t.binaryPath(), o.dir, "n1"); err != nil {
		return err
	}
	defer t.cluster.Close()
	t.cluster.Nodes[0].Flags = nil // a cluster of one needs no peers
	if t.recorder, err = history.Create(filepath.Join(o.dir, checker.HistoryFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.recorder.Close()) }()
	config := workload.Config{
		Nodes: t.endpoints(), Readers: readers, Seed: o.seed,
		Operations: o.rate * int(expected/time.Second), Duration: expected,
	}
	if t.load, err = workload.New(config, t.recorder); err != nil {
		return err
	}
	defer t.load.Close()
	if err := t.walk(ctx); err != nil {
		return err
	}
	return t.cluster.StopAlike(ctx)
}

// walk goes through all steps, and reads everything from every node at the end.
func (t *tour) walk(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	t.load.Start(ctx)
	err := t.steps(ctx)
	t.load.Stop()
	if err != nil {
		return err
	}
	index, err := t.cluster.Settle(ctx)
	if err != nil {
		return err
	}
	return t.load.ReadAll(ctx, index)
}

// begin starts the first node, and makes what clients work on.
func (t *tour) begin(ctx context.Context) error {
	if err := t.cluster.Start(ctx); err != nil {
		return err
	}
	return t.load.Create(ctx)
}

func (t *tour) steps(ctx context.Context) error {
	for i, s := range itinerary {
		name := fmt.Sprintf("%2d. %s", i+1, s.name)
		t.say("%s", name)
		if err := t.step(ctx, name, s.take); err != nil {
			return fmt.Errorf("step %s: %w", name, err)
		}
	}
	return nil
}

// step takes one step, lets the clients go on for a while, and looks whether all
// that was acknowledged so far is there.
func (t *tour) step(ctx context.Context, name string, take func(*tour, context.Context) error) error {
	t.shown = ""
	f := nemesis.Fault{Kind: name, Begin: t.recorder.Now()}
	if err := take(t, ctx); err != nil {
		return err
	}
	f.End = t.recorder.Now()
	if err := t.cluster.AwaitReady(ctx); err != nil {
		return err
	}
	f.Ready = t.recorder.Now()
	for _, n := range t.cluster.Nodes {
		f.Nodes = append(f.Nodes, n.ID)
	}
	if err := t.direct(); err != nil {
		return err
	}
	if err := sleep(ctx, t.hold); err != nil {
		return err
	}
	if err := t.load.Rest(func() error { return t.judge(ctx) }); err != nil {
		return err
	}
	return nemesis.Append(filepath.Join(t.dir, checker.FaultsFile), f)
}

// judge holds what the cluster has, while all clients rest, against what they were
// told.
func (t *tour) judge(ctx context.Context) error {
	index, err := t.cluster.Settle(ctx)
	if err != nil {
		return err
	}
	if err := t.load.ReadThrough(ctx); err != nil {
		return err
	}
	records, err := t.recorder.SoFar()
	if err != nil {
		return err
	}
	verdict, err := checker.CheckSoFar(records, checker.DefaultConfig())
	if err != nil {
		return err
	}
	if !verdict.OK() {
		n := len(verdict.Violations)
		return fmt.Errorf("%d violations: %v; undecided: %v", n, verdict.Violations[:min(3, n)], verdict.Unknown)
	}
	commits, _ := acknowledged(records)
	t.say("   every member is at index %d; all %d acknowledged commits are there", index, commits)
	return nil
}

// acknowledged is how many commits were, and the index of the last entry of a write
// that was.
func acknowledged(records []*history.Record) (commits int, index uint64) {
	for _, r := range records {
		if r.Outcome == history.OK && r.Op == "commit-file" {
			commits++
			index = max(index, r.Index)
		}
	}
	return commits, index
}

// direct has the clients ask the nodes that are members now, where they are now.
func (t *tour) direct() error { return t.load.Use(t.endpoints()) }

func (t *tour) endpoints() (all []workload.Endpoint) {
	for _, n := range t.cluster.Nodes {
		all = append(all, workload.Endpoint{ID: n.ID, URL: n.URL()})
	}
	return all
}

// peers is the nodes as --peers takes them.
func peers(nodes ...*cluster.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.ID+"="+n.RaftAddr)
	}
	return strings.Join(all, ",")
}

// say adds a line to the timeline.
func (t *tour) say(format string, args ...any) {
	fmt.Fprintf(t.out, "%6.1fs  %s\n", time.Duration(t.recorder.Now()).Seconds(), fmt.Sprintf(format, args...))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
