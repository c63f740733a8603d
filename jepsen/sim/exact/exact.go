// Package exact builds the simulator with a runtime of Go that leaves nothing to
// chance, so that a seed is repeated exactly: random numbers come from a fixed seed, and
// nothing depends on real time. The changes are a table of lines for one release of Go
// (go build -overlay); with another release, Build refuses.
package exact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cpnode/cpnode/internal/overlay"
)

// ErrToolchain: the toolchain that would build the simulator is not the one of the
// table, or its source is not as it was released.
var ErrToolchain = errors.New("seeds are repeated exactly with an unchanged " + Release + " only; run without --exact")

// command is what is built: each of its children is one run of a seed.
const command = "github.com/cpnode/cpnode/jepsen/sim/run"

// Build builds the simulator's command in dir and returns its path. It runs anywhere in
// the module. below is the path of a map for go build -overlay that is laid over too,
// such as of a seeded bug; empty for none. The whole standard library is compiled when
// nobody has done so before: a minute or two.
func Build(ctx context.Context, dir, below string) (binary string, err error) {
	with, err := find(ctx)
	if err != nil {
		return "", err
	}
	path, err := with.overlay(dir, below)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "exact")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", path, "-o", binary, command)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // no threads of others
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not build: %w\n%s", command, err, out)
	}
	return binary, nil
}

// toolchain is a release of Go, as `go env` tells.
type toolchain struct{ GOVERSION, GOROOT string }

// find is the toolchain that builds this module.
func find(ctx context.Context) (t toolchain, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "-json", "GOVERSION", "GOROOT").Output()
	if err != nil {
		return t, fmt.Errorf("%w: go env: %w", ErrToolchain, err)
	}
	return t, json.Unmarshal(out, &t)
}

// overlay writes the changed runtime, and returns the map for go build -overlay.
func (t toolchain) overlay(dir, below string) (path string, err error) {
	if t.GOVERSION != Release {
		return "", fmt.Errorf("%w: this is %s", ErrToolchain, t.GOVERSION)
	}
	var changes []overlay.Change
	for _, c := range table {
		c.File = filepath.Join(t.GOROOT, "src", "runtime", c.File)
		changes = append(changes, c)
	}
	if path, err = overlay.Write(dir, below, changes...); err != nil {
		return "", fmt.Errorf("%w: %w", ErrToolchain, err)
	}
	return path, nil
}
