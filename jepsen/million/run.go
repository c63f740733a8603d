package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/jepsen/report"
)

// minBatches are enough for the log to be cut.
const minBatches = 10_000

// harness is one run.
type harness struct {
	options
	binary  string
	cluster *cluster.Cluster
	client  *api.Client
	load    *committer
	out     *report.Report
}

// run fills a cluster, measures it, and returns how many targets were missed. No
// process is left.
func run(ctx context.Context, o options, out io.Writer) (missed int, err error) {
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return 0, err
	}
	h := &harness{options: o, binary: filepath.Join(o.dir, "cpnode"), out: report.New(out)}
	if err := h.provideBinary(ctx); err != nil {
		return 0, err
	}
	if h.cluster, err = cluster.New(h.binary, o.dir, "a", "b", "c"); err != nil {
		return 0, err
	}
	defer h.cluster.Close()
	h.flags(h.usual()...)
	var endpoints []string
	for _, n := range h.cluster.Nodes {
		endpoints = append(endpoints, n.URL())
	}
	if h.client, err = api.NewClient(api.DefaultClientConfig(endpoints...)); err != nil {
		return 0, err
	}
	defer h.client.Close()
	for _, part := range []func(context.Context) error{h.fill, h.killAll, h.snapshots, h.wipeOne, h.check} {
		if err := errors.Join(part(ctx), h.out.Flush()); err != nil {
			return 0, fmt.Errorf("%w; see the logs in %s", err, o.dir)
		}
	}
	return h.out.Missed(), nil
}

// provideBinary puts the binary that is to run into the directory.
func (h *harness) provideBinary(ctx context.Context) error {
	if h.options.binary != "" {
		data, err := os.ReadFile(h.options.binary)
		if err != nil {
			return err
		}
		return os.WriteFile(h.binary, data, 0o700)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", h.binary, "github.com/cpnode/cpnode/cmd/cpnode")
	build.Stderr = os.Stderr
	return build.Run()
}

// usual are flags that cut the log while the state is filled, so that it does not
// reach back to the beginning, and yet keep what a node misses while it is given a
// state.
func (h *harness) usual() []string {
	trailing := min(8192, h.batches/loadPerFile/4)
	return snapshotFlags(time.Second, trailing/8, trailing)
}

func snapshotFlags(interval time.Duration, threshold, trailing int) []string {
	return []string{"--raft.snapshot.interval.ms", strconv.FormatInt(interval.Milliseconds(), 10), "--raft.snapshot.threshold", strconv.Itoa(threshold),
		"--raft.trailing.logs", strconv.Itoa(trailing)}
}

// flags are what all nodes are started with from now on, beside the peers.
func (h *harness) flags(more ...string) {
	for _, n := range h.cluster.Nodes {
		n.Flags = append(n.Flags[:2:2], more...)
	}
}

// fill stores the batches.
func (h *harness) fill(ctx context.Context) (err error) {
	if err := h.cluster.Start(ctx); err != nil {
		return err
	}
	if h.load, err = createTopic(ctx, h.client); err != nil {
		return err
	}
	began := time.Now()
	if err := h.load.fill(ctx, h.batches); err != nil {
		return err
	}
	took := time.Since(began)
	h.out.Title("Fill, over HTTP: %d clients, %d batches a file, %d partitions", loadClients, loadPerFile, partitions)
	h.out.Fact("batches", "%d in %s, %.0f a second", h.batches, report.Short(took), float64(h.batches)/took.Seconds())
	h.out.Fact("state file", "%.1f MB", float64(size(h.cluster.Nodes[0].Dir, stateFile))/1e6)
	return nil
}

const (
	stateFile   = "state.db"
	installFile = "state.db.install"
)

// size is that of a node's file in bytes, 0 when there is none.
func size(dir, name string) int64 {
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	return info.Size()
}
