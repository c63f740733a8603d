package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/cpnode/cpnode/jepsen/sim"
)

// runner runs seed after seed.
type runner struct {
	options
	children children
	out      io.Writer

	mu     sync.Mutex
	next   int // seeds begun
	runs   int
	failed []try
	traces map[uint64]string // by seed, of exact runs
	differ map[uint64]bool   // seeds with more than one
	total  sim.Result
	nodes  time.Duration // simulated time of nodes, all together
	err    error
}

// run runs all seeds, then says what was found.
func (r *runner) run(ctx context.Context) error {
	began := time.Now()
	r.traces, r.differ = map[uint64]string{}, map[uint64]bool{}
	r.total = sim.Result{Operations: map[string]int{}, Faults: map[sim.Kind]int{}, Skipped: map[sim.Kind]int{}}
	var all sync.WaitGroup
	for range r.parallel {
		all.Go(func() {
			for seed, ok := r.begin(began); ok && ctx.Err() == nil; seed, ok = r.begin(began) {
				r.note(ctx, try{seed: seed, keep: r.keep, verbose: r.verbose, history: true})
			}
		})
	}
	all.Wait()
	r.summarize(time.Since(began))
	if err := errors.Join(r.err, ctx.Err()); err != nil {
		return err
	}
	for _, t := range r.failed {
		r.shrink(ctx, t)
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("%d of %d runs do not hold", len(r.failed), r.runs)
	}
	if len(r.differ) > 0 {
		return fmt.Errorf("%d seeds were not repeated exactly", len(r.differ))
	}
	return nil
}

// begin is the next seed, while there is one.
func (r *runner) begin(began time.Time) (seed uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil, len(r.failed) >= r.stop, r.seeds > 0 && r.next == r.seeds*r.times, r.length > 0 && time.Since(began) > r.length:
		return 0, false
	}
	seed = r.seed + uint64(r.next/r.times)
	r.next++
	return seed, true
}

// note runs a scenario and counts what became of it.
func (r *runner) note(ctx context.Context, t try) {
	result, err := r.children.run(ctx, t)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	r.runs++
	r.total.Simulated += result.Simulated
	r.nodes += result.Simulated * time.Duration(result.Nodes)
	add(r.total.Operations, result.Operations)
	add(r.total.Faults, result.Faults)
	add(r.total.Skipped, result.Skipped)
	if r.exact {
		r.compare(t, result)
	}
	if len(result.Failures) > 0 {
		r.failed = append(r.failed, t)
		r.show(t, result)
	}
}

// compare prints the trace of an exact run, which must be that of each run of the seed.
func (r *runner) compare(t try, result *sim.Result) {
	fmt.Fprintf(r.out, "seed %d: trace %s\n", t.seed, result.Trace)
	before, ok := r.traces[t.seed]
	if ok && before != result.Trace {
		r.differ[t.seed] = true
	}
	r.traces[t.seed] = result.Trace
}

func add[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

// show prints a failure: what was to happen, what did, and what is wrong with it.
func (r *runner) show(t try, result *sim.Result) {
	fmt.Fprintf(r.out, "seed %d FAILS\n\n", t.seed)
	for i, f := range t.scenario().Faults {
		fmt.Fprintf(r.out, "  fault %2d  %s\n", i, f)
	}
	fmt.Fprintln(r.out)
	for _, line := range result.Diary {
		fmt.Fprintf(r.out, "  %s\n", line)
	}
	fmt.Fprintln(r.out)
	for _, text := range result.Failures {
		fmt.Fprintf(r.out, "  WRONG: %s\n", text)
	}
	fmt.Fprintf(r.out, "\nto run it again: %s --seed %d\n\n", r.again(), t.seed)
}

// again is the command that runs this one.
func (r *runner) again() string {
	if r.exact {
		return "go run ./jepsen/sim/run --exact"
	}
	return "go run ./jepsen/sim/run"
}

func (r *runner) summarize(took time.Duration) {
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "FAULT\tTIMES\tNOT THE TIME FOR IT\n")
	for _, kind := range slices.Sorted(maps.Keys(r.total.Faults)) {
		fmt.Fprintf(w, "%s\t%d\t%d\n", kind, r.total.Faults[kind], r.total.Skipped[kind])
	}
	fmt.Fprintf(w, "\nOPERATION\tTIMES\n")
	operations, faults := 0, 0
	for _, name := range slices.Sorted(maps.Keys(r.total.Operations)) {
		fmt.Fprintf(w, "%s\t%d\n", name, r.total.Operations[name])
		operations += r.total.Operations[name]
	}
	for _, n := range r.total.Faults {
		faults += n
	}
	_ = w.Flush() // as little can be done as about the lines before
	fmt.Fprintf(r.out, "\nseeds %d to %d: %d runs, %d operations, %d faults\n", r.seed, r.seed+uint64(max(0, r.next-1)/r.times), r.runs, operations, faults)
	fmt.Fprintf(r.out, "%.2f cluster-hours (%.2f node-hours) in %s: %.2f cluster-hours a minute\n",
		r.total.Simulated.Hours(), r.nodes.Hours(), took.Round(time.Second), r.total.Simulated.Hours()/took.Minutes())
	if r.exact {
		fmt.Fprintf(r.out, "%d of %d seeds had one trace in all their runs\n", len(r.traces)-len(r.differ), len(r.traces))
	}
	if len(r.failed) == 0 {
		fmt.Fprintf(r.out, "verdict: no violation\n")
	} else {
		fmt.Fprintf(r.out, "verdict: %d FAILED\n", len(r.failed))
	}
}

// shrink looks for fewer faults with which a seed fails, and says which.
func (r *runner) shrink(ctx context.Context, t try) {
	if r.tries == 0 || r.times > 1 {
		return
	}
	s := shrinking{tries: r.tries, times: unsure, fails: func(keep []int) bool {
		result, err := r.children.run(ctx, try{seed: t.seed, keep: keep})
		return err == nil && len(result.Failures) > 0
	}}
	if r.exact {
		s.times = 1
	}
	kept := t.keep
	if kept == nil {
		for i := range t.scenario().Faults {
			kept = append(kept, i)
		}
	}
	fewest := s.run(kept)
	fmt.Fprintf(r.out, "fewest faults found with which seed %d fails, in %d runs:\n", t.seed, r.tries-s.tries)
	for _, i := range fewest {
		fmt.Fprintf(r.out, "  fault %2d  %s\n", i, sim.Generate(t.seed).Faults[i])
	}
	fmt.Fprintf(r.out, "to run it: %s --seed %d --keep %s\n", r.again(), t.seed, list(fewest))
}
