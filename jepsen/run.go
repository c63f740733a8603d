package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
	"github.com/cpnode/cpnode/jepsen/workload"
)

// nemesisStream sets its random choices apart from those of clients.
const nemesisStream = 1 << 32

// verdictFile is what run printed at the end.
const verdictFile = "verdict.txt"

// run makes the directory, records a run in it, and judges it.
func run(ctx context.Context, o options, out io.Writer) (*checker.Report, error) {
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, err
	}
	if err := cluster.Provide(ctx, o.binary, filepath.Join(o.dir, checker.BinaryFile)); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "seed %d; %d faults, %d operations, %d nodes under %s\n", o.seed, o.faults, o.operations, o.nodes, o.dir)
	if err := record(ctx, o, out); err != nil {
		return nil, fmt.Errorf("%w; seed %d, see the logs in %s", err, o.seed, o.dir)
	}
	report, err := checker.Check(ctx, o.dir, checker.DefaultConfig())
	if err != nil {
		return nil, err
	}
	return report, printReport(report, o, out)
}

// record runs cluster, clients and faults, from the first start of the nodes until
// they have stopped. No process is left.
func record(ctx context.Context, o options, out io.Writer) (err error) {
	var ids []string
	for i := range o.nodes {
		ids = append(ids, string(rune('a'+i)))
	}
	c, err := cluster.New(filepath.Join(o.dir, checker.BinaryFile), o.dir, ids...)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		return err
	}
	recorder, err := history.Create(filepath.Join(o.dir, checker.HistoryFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	r := &running{options: o, out: out, cluster: c, recorder: recorder}
	if err := r.work(ctx); err != nil {
		return err
	}
	return c.Stop()
}

// running is a cluster, and a recorder of what is done to it.
type running struct {
	options
	out      io.Writer
	cluster  *cluster.Cluster
	recorder *history.Recorder
	done     int // faults
}

// work lets clients work through all faults, until enough is recorded, and then
// reads everything from every node.
func (r *running) work(ctx context.Context) error {
	config := workload.Config{Readers: workload.ReadersPerNode * r.nodes, Seed: r.seed, Operations: r.operations, Duration: time.Duration(max(1, r.faults)) * nemesis.Period}
	for _, n := range r.cluster.Nodes {
		config.Nodes = append(config.Nodes, workload.Endpoint{ID: n.ID, URL: n.URL()})
	}
	load, err := workload.New(config, r.recorder)
	if err != nil {
		return err
	}
	defer load.Close()
	if err := load.Create(ctx); err != nil {
		return err
	}
	if _, err := r.cluster.Settle(ctx); err != nil {
		return err
	}
	load.Start(ctx)
	err = r.disturb(ctx)
	load.Stop()
	if err != nil {
		return err
	}
	index, err := r.cluster.Settle(ctx)
	if err != nil {
		return err
	}
	return load.ReadAll(ctx, index)
}

// disturb returns when all faults are done and enough operations recorded.
func (r *running) disturb(ctx context.Context) error {
	n := nemesis.Nemesis{Cluster: r.cluster, Random: rand.New(rand.NewPCG(r.seed, nemesisStream)), Now: r.recorder.Now}
	faults := filepath.Join(r.dir, checker.FaultsFile)
	if err := os.WriteFile(faults, nil, 0o600); err != nil {
		return err
	}
	err := n.Run(ctx, r.faults, func(f nemesis.Fault) error {
		r.report(f)
		return nemesis.Append(faults, f)
	})
	for err == nil && r.recorder.Count() < r.operations {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// reportEvery is after how many faults a line says how far the run is.
const reportEvery = 10

func (r *running) report(f nemesis.Fault) {
	if r.done++; r.done%reportEvery == 0 || r.done == r.faults {
		fmt.Fprintf(r.out, "%7.1fs  %d faults of %d, %d operations\n", time.Duration(f.Ready).Seconds(), r.done, r.faults, r.recorder.Count())
	}
}

// printReport prints the verdict, and keeps it.
func printReport(report *checker.Report, o options, out io.Writer) error {
	file, err := os.OpenFile(filepath.Join(o.dir, verdictFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintf(file, "seed %d\n", o.seed)
	return errors.Join(report.Print(io.MultiWriter(out, file)), file.Close())
}
