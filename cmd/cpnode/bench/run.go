package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

// work is one kind of measurement, selected by name.
type work struct {
	name string
	run  func(*runner, context.Context) error
}

// works are in the order in which they run: size changes the stored state and
// comes last.
func works() []work {
	return []work{
		{"disk", (*runner).disk},
		{"commit", (*runner).commit},
		{"find", (*runner).find},
		{"list-offsets", (*runner).listOffsets},
		{"delete-topic", (*runner).deleteTopic},
		{"purge", (*runner).purge},
		{"prune", (*runner).prune},
		{"retention", (*runner).retention},
		{"idle", (*runner).idle},
		{"snapshot", (*runner).snapshot},
		{"catch-up", (*runner).catchUp},
		{"restart", (*runner).restart},
		{"size", (*runner).size},
	}
}

// WorkNames are the names that Options.Work may hold, in the order in which they run.
func WorkNames() []string {
	var names []string
	for _, w := range works() {
		names = append(names, w.name)
	}
	return names
}

// runner is one run.
type runner struct {
	options Options
	dir     string
	report  *Report
	stored  map[int]*stored // by nodes, once a work has asked for it
}

// Run measures what the options name and reports it. It removes what it made on
// disk, also when it fails or ctx ends.
func Run(ctx context.Context, options Options) (_ *Report, err error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(options.Dir, "cpnode-bench-")
	if err != nil {
		return nil, fmt.Errorf("dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	r := &runner{options: options, dir: dir, stored: map[int]*stored{}, report: &Report{
		Machine: thisMachine(dir, options.settings()), Scale: options.Scale, Started: began, PointSec: options.Duration.Seconds(),
	}}
	defer func() { err = errors.Join(err, r.release()) }()
	for _, w := range works() {
		if !slices.Contains(options.Work, w.name) {
			continue
		}
		if err := w.run(r, ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	r.report.Seconds = time.Since(began).Seconds()
	return r.report, nil
}

// settings are those of the nodes that bear on speed.
func (o Options) settings() string {
	c := raftnode.DefaultConfig()
	return fmt.Sprintf("state.sync %s, raft.log.store %s, at most %d entries an append, %d rows an entry of a purge", o.Sync, c.RaftLogStore, c.MaxAppendEntries, c.Settings.PurgeRows)
}

func (r *runner) release() error {
	var errs []error
	for _, s := range r.stored {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

func (r *runner) step(format string, args ...any) {
	if r.options.Progress != nil {
		r.options.Progress(fmt.Sprintf(format, args...))
	}
}

// add puts a line in the report, to be filled in further.
func (r *runner) add(work, setup, unit string, f Figures) *Line {
	r.report.Lines = append(r.report.Lines, Line{Work: work, Setup: setup, Unit: unit, Figures: f})
	return &r.report.Lines[len(r.report.Lines)-1]
}

// withCluster calls fn with a new cluster, which is removed after.
func (r *runner) withCluster(ctx context.Context, nodes int, fn func(*cluster) error) error {
	return r.withClusterOf(ctx, nodes, r.options.stateSync(), fn)
}

// withClusterOf is withCluster with a state.sync of its own.
func (r *runner) withClusterOf(ctx context.Context, nodes int, sync string, fn func(*cluster) error) error {
	c, err := newCluster(ctx, r.dir, nodes, sync)
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.remove())
}

// point measures ours between two halves of its floor, each by as many clients.
func (r *runner) point(ctx context.Context, clients int, ours, floor call) (s, bound sample, err error) {
	d := r.options.Duration
	before, err := measure(ctx, clients, d/2, floor)
	if err != nil {
		return s, bound, err
	}
	if s, err = measure(ctx, clients, d, ours); err != nil {
		return s, bound, err
	}
	after, err := measure(ctx, clients, d/2, floor)
	return s, join(before, after), err
}

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func clientsText(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}
