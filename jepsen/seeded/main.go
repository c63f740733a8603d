// Command seeded shows that the harness finds what it is there for: it builds cpnode, or
// the simulator, with one bug after the other, and runs jepsen, its tour or the
// simulation, which must name what is wrong.
//
//	go run ./jepsen/seeded [-only NAME] [-exact]
//
// With -exact simulations run as `go run ./jepsen/sim/run --exact` does: a seed that finds
// a bug finds it again. Nothing in the tree is changed: the wrong file is laid over it
// (go build -overlay).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpnode/cpnode/internal/overlay"
)

func main() {
	only := flag.String("only", "", "try the bugs whose name contains this")
	exact := flag.Bool("exact", false, "simulate exactly: a seed that finds a bug finds it again")
	flag.Parse()
	if err := run(context.Background(), *only, *exact); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, exact bool) error {
	dir, err := os.MkdirTemp("", "seeded-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, harness := range []string{"jepsen", "jepsen/tour"} {
		if err := build(ctx, filepath.Join(dir, filepath.Base(harness)), "./"+harness); err != nil {
			return err
		}
	}
	missed := 0
	for _, b := range bugs {
		if !strings.Contains(b.name, only) {
			continue
		}
		began := time.Now()
		found, out, err := b.try(ctx, dir, exact)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		word := "found"
		if !found {
			word = "MISSED"
			missed++
			fmt.Printf("%s\n", out)
		}
		fmt.Printf("%-7s %5.1fs  %-56s %s%s\n", word, time.Since(began).Seconds(), b.name, b.says, after(out))
	}
	if missed > 0 {
		return fmt.Errorf("%d bugs were missed", missed)
	}
	return nil
}

// after says how many seeds a simulation took.
func after(out []byte) string {
	m := regexp.MustCompile(`: (\d+) runs, `).FindSubmatch(out)
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" (%s seeds)", m[1])
}

func build(ctx context.Context, binary, pkg string, flags ...string) error {
	args := append([]string{"build", "-o", binary}, flags...)
	if out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build: %w\n%s", pkg, err, out)
	}
	return nil
}

// try says whether a run of cpnode with the bug fails, and says why.
func (b bug) try(ctx context.Context, dir string, exact bool) (found bool, out []byte, err error) {
	path, err := overlay.Write(dir, "", b.change())
	if err != nil {
		return false, nil, err
	}
	cmd, err := b.with(ctx, dir, path, exact)
	if err != nil {
		return false, nil, err
	}
	defer os.RemoveAll(filepath.Join(dir, runDir))
	out, err = cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return false, out, err
	}
	return failed != nil && strings.Contains(string(out), b.says), out, nil
}

// runDir is where a harness keeps what it records.
const runDir = "run"

// with is what is to find the bug, which it is built with, or the cpnode that it runs.
func (b bug) with(ctx context.Context, dir, path string, exact bool) (*exec.Cmd, error) {
	if b.seeds > 0 {
		simulator := filepath.Join(dir, "sim")
		args := []string{"--seed", "1", "--seeds", fmt.Sprint(b.seeds), "--tries", "0"}
		if exact {
			args = append(args, "--exact", "--overlay", path)
		}
		return exec.CommandContext(ctx, simulator, args...), build(ctx, simulator, "./jepsen/sim/run", "-overlay", path)
	}
	binary := filepath.Join(dir, "cpnode")
	args := []string{"--cpnode", binary, filepath.Join(dir, runDir)}
	err := build(ctx, binary, "./cmd/cpnode", "-overlay", path)
	if b.faults == 0 {
		return exec.CommandContext(ctx, filepath.Join(dir, "tour"), append([]string{"--hold", "200ms"}, args...)...), err
	}
	load := []string{"--count", fmt.Sprint(b.faults), "--ops", fmt.Sprint(b.faults * operationsPerFault)}
	if !b.everyone {
		load = append(load, "--objects=false", "--brokers=false")
	}
	return exec.CommandContext(ctx, filepath.Join(dir, "jepsen"), append(load, args...)...), err
}
