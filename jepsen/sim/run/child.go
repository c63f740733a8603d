package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/sim"
)

// childArg makes this executable run one scenario.
const childArg = "one-scenario"

// nodesDir is where the child keeps the nodes' data and the history.
const nodesDir = "nodes"

// resultFile is where the child leaves what became of it.
const resultFile = "result.json"

// try is one run of a scenario.
type try struct {
	seed    uint64
	keep    []int // nil: all of its faults
	verbose bool
	history bool // is kept if the run fails
}

func (t try) scenario() *sim.Scenario {
	s := sim.Generate(t.seed)
	if t.keep != nil {
		s = s.Only(t.keep)
	}
	return s
}

// toSay is how long a scenario that took too much time has to print its stacks.
const toSay = 10 * time.Second

// children runs scenarios, each in a process of its own.
type children struct {
	binary string // this command
	exact  bool   // as built by package exact
	base   string // of the runs' directories
	limit  time.Duration
}

// run runs the scenario in a child process. What became of that, if it did not come to
// its end, is a failure of the scenario.
func (c children) run(ctx context.Context, t try) (*sim.Result, error) {
	dir, err := os.MkdirTemp(c.base, "seed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	keep := ""
	if t.keep != nil {
		keep = list(t.keep)
	}
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, c.binary, childArg, strconv.FormatUint(t.seed, 10), keep, strconv.FormatBool(t.verbose))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it says where it was
	cmd.WaitDelay = toSay
	cmd.Dir = dir // whose name is another one each time, and is in no message
	cmd.Env = c.environment()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if t.verbose {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	ended := cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	data, err := os.ReadFile(filepath.Join(dir, resultFile))
	if errors.Is(err, os.ErrNotExist) {
		return &sim.Result{Failures: []string{fmt.Sprintf("the process ended: %v\n%s", ended, c.excerpt(t, said.Bytes()))}}, nil
	}
	r := &sim.Result{}
	if err := errors.Join(err, json.Unmarshal(data, r)); err != nil {
		return nil, err
	}
	if len(r.Failures) > 0 && t.history {
		r.Diary = append(r.Diary, c.keepHistory(t, dir))
	}
	return r, nil
}

// keepHistory keeps what the clients of a failed run saw, and says where.
func (c children) keepHistory(t try, dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, nodesDir, checker.HistoryFile))
	if errors.Is(err, os.ErrNotExist) {
		return "there is no history: the cluster did not form"
	}
	path, err2 := keepFile(fmt.Sprintf("seed-%d-*.jsonl", t.seed), data)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Sprintf("the history could not be kept: %v", err)
	}
	return "the history of this run: " + path
}

func keepFile(pattern string, data []byte) (path string, err error) {
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}

// environment is that of a child: one thread, and no interruption of goroutines by time,
// so that what the scheduler is free to choose is as little as can be had. Where runs
// are exact, nothing else is in it, and no garbage is collected, after which addresses
// would differ, and with them the order of maps whose keys are pointers.
func (c children) environment() []string {
	fixed := []string{"GOMAXPROCS=1", "GODEBUG=randseednop=0,asyncpreemptoff=1"}
	if c.exact {
		return append(fixed, "GOGC=off", "GOMEMLIMIT=8GiB")
	}
	return append(os.Environ(), fixed...)
}

// maxSaid bounds what is shown of what a process said that died.
const maxSaid = 16 << 10

// excerpt is what is shown of what a process said; all of it is kept in a file if that
// is more.
func (c children) excerpt(t try, said []byte) string {
	if len(said) <= maxSaid {
		return string(said)
	}
	path, err := keepFile(fmt.Sprintf("seed-%d-*.txt", t.seed), said)
	if err != nil {
		return fmt.Sprintf("%s\n... (the rest could not be kept: %v)", said[:maxSaid], err)
	}
	return fmt.Sprintf("%s\n... (all of it: %s)", said[:maxSaid], path)
}

// child runs one scenario in the working directory, and ends the process. Simulated time
// is to be had in tests only, so this is one.
func child(args []string) error {
	seed, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	keep, err := numbers(args[1])
	if err != nil {
		return err
	}
	t := try{seed: seed, keep: keep, verbose: args[2] == "true"}
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		return err
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "scenario", F: func(tt *testing.T) {
		data, err := json.Marshal(sim.Run(tt, t.scenario(), nodesDir, t.verbose))
		if err := errors.Join(err, os.WriteFile(resultFile, data, 0o600)); err != nil {
			tt.Fatal(err)
		}
	}}}, nil, nil)
	return nil
}
