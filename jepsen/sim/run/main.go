// Command run simulates clusters, one a seed, and judges them.
//
//	go run ./jepsen/sim/run [--seed S] [--seeds N] [--for 60s] [--keep 0,3,4] [--exact] [-v]
//
// Each seed runs in a process of its own, so that whatever becomes of it is known. One
// that fails is shown with what happened, the fewest faults found that make it fail
// again, and the command that runs it. The exit code is then 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/jepsen/sim/exact"
	"github.com/cpnode/cpnode/store"
)

func main() {
	store.ChildMain()
	if len(os.Args) > 1 && os.Args[1] == childArg { // before anything that needs a thread
		exit(child(os.Args[2:]))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(command(ctx, os.Args[1:], os.Stdout))
}

// exit ends the process if there is an error.
func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	seed     uint64
	seeds    int           // 0: as many as there is time for
	length   time.Duration // of real time; 0: until all seeds are done
	keep     []int         // faults of the one seed; nil: all
	parallel int
	tries    int           // to find fewer faults that fail
	stop     int           // failing seeds after which no more are run
	times    int           // how often each seed runs
	limit    time.Duration // of real time, for one run
	dir      string
	verbose  bool
	exact    bool   // each run of a seed is the same
	overlay  string // for go build -overlay, of an exact child
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "cpnode-sim-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := runner{options: o, children: children{exact: o.exact, base: dir, limit: o.limit}, out: out}
	if !o.exact {
		if r.children.binary, err = os.Executable(); err != nil {
			return err
		}
		return r.run(ctx)
	}
	built, err := os.MkdirTemp("", "cpnode-exact-") // nothing may be executed in memory, often
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	if r.children.binary, err = exact.Build(ctx, built, o.overlay); err != nil {
		return err
	}
	return r.run(ctx)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1e9), "first seed; the ones after it follow")
	flags.IntVar(&o.seeds, "seeds", 0, "how many seeds; 0: 1, or with --for as many as there is time for")
	flags.DurationVar(&o.length, "for", 0, "begin no seed after this time")
	flags.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "seeds at a time")
	flags.IntVar(&o.tries, "tries", 60, "runs to find the fewest faults with which a seed fails; 0: do not look")
	flags.IntVar(&o.stop, "failures", 1, "begin no seed after so many have failed")
	flags.IntVar(&o.times, "times", 1, "run each seed so many times")
	flags.DurationVar(&o.limit, "limit", 5*time.Minute, "time that one run may take; then it fails, and says where it is")
	flags.StringVar(&o.dir, "dir", memory(), "where directories are made for the nodes; memory is much faster")
	keep := flags.String("keep", "", "only these faults of the seed, by their number")
	flags.BoolVar(&o.exact, "exact", false, "repeat each seed exactly, with a runtime of Go changed for it; needs "+exact.Release)
	flags.StringVar(&o.overlay, "overlay", "", "with --exact: build the simulator with this map of files, as go build -overlay")
	flags.BoolVar(&o.verbose, "v", false, "print the nodes' logs")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.keep, err = numbers(*keep); err != nil {
		return o, fmt.Errorf("--keep: %w", err)
	}
	if o.seeds == 0 && o.length == 0 || *keep != "" {
		o.seeds = 1
	}
	if o.overlay != "" && !o.exact {
		return o, errors.New("--overlay is for --exact")
	}
	if flags.NArg() > 0 || o.seeds < 0 || o.parallel < 1 || o.times < 1 || o.stop < 1 {
		return o, errors.New("there are no arguments but flags; --parallel, --times and --failures are at least 1")
	}
	return o, nil
}

// memory is a file system in memory where there is one, else empty.
func memory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return ""
}

// numbers reads a list with commas; nil is an empty one, and "none" one without numbers.
func numbers(list string) (all []int, err error) {
	switch list {
	case "":
		return nil, nil
	case none:
		return []int{}, nil
	}
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// none is the list of no faults.
const none = "none"

// list is what numbers reads.
func list(all []int) string {
	if len(all) == 0 {
		return none
	}
	var texts []string
	for _, n := range all {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}
