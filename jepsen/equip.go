package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cpnode/cpnode/internal/overlay"
	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/jepsen/nemesis"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
)

func (r *running) binaryPath() string { return filepath.Join(r.dir, checker.BinaryFile) }

// provide makes the binaries. Kinds of faults that they do not allow are left out.
func (r *running) provide(ctx context.Context) error {
	if err := cluster.Provide(ctx, r.binary, r.binaryPath(), "-tags", cluster.FaultsTag); err != nil {
		return err
	}
	injects, err := cluster.HasFaults(r.binaryPath())
	if err != nil {
		return err
	}
	for _, name := range []string{nemesis.KindCut, nemesis.KindMix, nemesis.KindClock} {
		if !injects {
			r.leaveOut(name, "the binary was built without the tag "+cluster.FaultsTag)
		}
	}
	if r.has(nemesis.KindUpgrade) && r.binary != "" {
		r.leaveOut(nemesis.KindUpgrade, "nothing is known of the release after --cpnode")
	}
	if !r.has(nemesis.KindUpgrade) {
		return nil
	}
	r.nemesis.Next = filepath.Join(r.dir, "next")
	return provideNext(ctx, r.nemesis.Next)
}

// provideNext builds a release like this one of the next feature level.
func provideNext(ctx context.Context, target string) error {
	dir, err := os.MkdirTemp("", "next-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("the module's root: %w", err)
	}
	const line = "const FeatureLevel = %d\n"
	path, err := overlay.Write(dir, "", overlay.Change{
		File: filepath.Join(strings.TrimSpace(string(root)), "ops", "feature_level.go"),
		Old:  fmt.Sprintf(line, ops.FeatureLevel), New: fmt.Sprintf(line, ops.FeatureLevel+1),
	})
	if err != nil {
		return err
	}
	return cluster.Provide(ctx, "", target, "-tags", cluster.FaultsTag, "-overlay", path)
}

// Pace of the workers. An object stays longer than a writer goes on trying to commit it:
// its key is fenced then.
var pace = []string{
	"--topic.purger.interval.ms", "1000", "--topic.purger.max.batches.per.cycle", "100",
	"--file.cleaner.interval.ms", "1000", "--file.cleaner.retention.period.ms", "10000",
}

// openStore gives the nodes a directory for objects, which their workers clean up.
func (r *running) openStore() error {
	dir := filepath.Join(r.dir, checker.ObjectsDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	store, err := objectstore.OpenDirectory(dir)
	if err != nil {
		return err
	}
	r.store = store
	for _, n := range r.cluster.Nodes {
		n.Flags = slices.Concat(n.Flags, []string{"--object.store.type", objectstore.TypeDirectory, "--object.store.directory", dir}, pace)
	}
	return nil
}

// equip gives the cluster, which has not run yet, what its faults and clients need. What
// that leaves behind is taken away by end, when no process is left.
func (r *running) equip() (end func() error, err error) {
	end = func() error { return nil }
	if r.objects {
		if err := r.openStore(); err != nil {
			return end, err
		}
	}
	if r.has(nemesis.KindCut) || r.has(nemesis.KindMix) {
		if err := r.cluster.Interpose(); err != nil {
			return end, err
		}
	}
	if r.has(nemesis.KindDisk) {
		nodes := r.cluster.Nodes
		disk, err := nemesis.NewSmallDisk(filepath.Join(r.dir, "small-disk"), nodes[len(nodes)-1])
		if err != nil {
			r.leaveOut(nemesis.KindDisk, err.Error())
		} else {
			r.nemesis.Disk, end = disk, disk.Close
		}
	}
	if r.nemesis.Kinds = r.kinds; len(r.kinds) == 0 && (r.length > 0 || r.count > 0) {
		return end, errors.New("no kind of fault is left")
	}
	return end, nil
}

func (r *running) has(name string) bool { return slices.Contains(nemesis.Names(r.kinds), name) }

// leaveOut does without a kind of faults, and says why.
func (r *running) leaveOut(name, why string) {
	if r.has(name) {
		fmt.Fprintf(r.out, "no faults of kind %s: %s\n", name, why)
	}
	r.kinds = slices.DeleteFunc(slices.Clone(r.kinds), func(k nemesis.Kind) bool { return k.Name == name })
}
