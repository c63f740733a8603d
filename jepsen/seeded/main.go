// Command seeded shows that the harness finds what it is there for: it builds cpnode
// with one bug after the other, and runs jepsen or its tour on it, which must name what
// is wrong.
//
//	go run ./jepsen/seeded [-only NAME]
//
// Nothing in the tree is changed: the wrong file is laid over it (go build -overlay).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "try the bugs whose name contains this")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
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
		found, out, err := b.try(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		word := "found"
		if !found {
			word = "MISSED"
			missed++
			fmt.Printf("%s\n", out)
		}
		fmt.Printf("%-7s %5.1fs  %-52s %s\n", word, time.Since(began).Seconds(), b.name, b.says)
	}
	if missed > 0 {
		return fmt.Errorf("%d bugs were missed", missed)
	}
	return nil
}

func build(ctx context.Context, binary, pkg string, flags ...string) error {
	args := append([]string{"build", "-o", binary}, flags...)
	if out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build: %w\n%s", pkg, err, out)
	}
	return nil
}

// try says whether a run of cpnode with the bug fails, and says why.
func (b bug) try(ctx context.Context, dir string) (found bool, out []byte, err error) {
	path, err := b.change().Write(dir)
	if err != nil {
		return false, nil, err
	}
	binary, runDir := filepath.Join(dir, "cpnode"), filepath.Join(dir, "run")
	if err := build(ctx, binary, "./cmd/cpnode", "-overlay", path); err != nil {
		return false, nil, err
	}
	defer os.RemoveAll(runDir)
	out, err = b.harness(ctx, dir, "--cpnode", binary, runDir).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return false, out, err
	}
	return failed != nil && strings.Contains(string(out), b.says), out, nil
}

// harness is what is to find the bug.
func (b bug) harness(ctx context.Context, dir string, args ...string) *exec.Cmd {
	if b.faults == 0 {
		return exec.CommandContext(ctx, filepath.Join(dir, "tour"), append([]string{"--hold", "200ms"}, args...)...)
	}
	load := []string{"--faults", fmt.Sprint(b.faults), "--ops", fmt.Sprint(b.faults * operationsPerFault)}
	return exec.CommandContext(ctx, filepath.Join(dir, "jepsen"), append(load, args...)...)
}
