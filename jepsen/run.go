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
	"github.com/cpnode/cpnode/jepsen/page"
	"github.com/cpnode/cpnode/jepsen/workload"
	"github.com/cpnode/cpnode/purger/objectstore"
)

// nemesisStream sets its random choices apart from those of clients.
const nemesisStream = 1 << 32

// run makes the directory, records a run in it, and judges it.
func run(ctx context.Context, o options, out io.Writer) (report *checker.Report, err error) {
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, err
	}
	r := &running{options: o, out: out}
	if err := r.provide(ctx); err != nil {
		return nil, err
	}
	if err := r.record(ctx); err != nil {
		err = fmt.Errorf("%w; seed %d, see the logs in %s", err, o.seed, o.dir)
		_, judged := r.judge(ctx) // what was recorded until then may say why
		return nil, errors.Join(err, judged)
	}
	return r.judge(ctx)
}

// judge judges what was recorded, and leaves the verdict.
func (r *running) judge(ctx context.Context) (*checker.Report, error) {
	report, err := checker.Check(ctx, r.dir, checker.DefaultConfig())
	if err != nil {
		return nil, err
	}
	if err := report.Print(r.out); err != nil {
		return nil, err
	}
	path, err := page.Write(r.dir, r.seed, report)
	fmt.Fprintln(r.out, "page:", path)
	return report, err
}

// running is a cluster, and a recorder of what is done to it.
type running struct {
	options
	out      io.Writer
	cluster  *cluster.Cluster
	recorder *history.Recorder
	nemesis  nemesis.Nemesis
	store    objectstore.Store // nil without objects
	done     int               // faults
}

// record runs cluster, clients and faults, from the first start of the nodes until
// they have stopped. No process is left.
func (r *running) record(ctx context.Context) (err error) {
	var ids []string
	for i := range r.nodes {
		ids = append(ids, string(rune('a'+i)))
	}
	if r.cluster, err = cluster.New(r.binaryPath(), r.dir, ids...); err != nil {
		return err
	}
	end, err := r.equip()
	if err != nil {
		return err
	}
	defer func() {
		r.cluster.Close()
		err = errors.Join(err, end())
	}()
	fmt.Fprintf(r.out, "seed %d; %s of %v, %d operations, %d nodes under %s\n", r.seed, r.extent(), nemesis.Names(r.kinds), r.recorded(), r.nodes, r.dir)
	if err := r.cluster.Start(ctx); err != nil {
		return err
	}
	if r.recorder, err = history.Create(filepath.Join(r.dir, checker.HistoryFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.recorder.Close()) }()
	if err := r.work(ctx); err != nil {
		return err
	}
	return r.cluster.StopAlike(ctx)
}

// extent is how much will be done, in words.
func (r *running) extent() string {
	if r.length > 0 {
		return r.length.String()
	}
	return fmt.Sprintf("%d faults", r.count)
}

// work lets clients work through all faults, until enough is recorded, and then
// reads everything from every node.
func (r *running) work(ctx context.Context) error {
	config := workload.Config{Readers: workload.ReadersPerNode * r.nodes, Seed: r.seed, Operations: r.recorded(), Duration: r.duration(), Objects: r.store, Brokers: r.brokers}
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
	working, giveUp := context.WithCancel(ctx)
	defer giveUp()
	load.Start(working)
	if err = r.disturb(ctx); err != nil {
		giveUp() // nobody may answer any more
	}
	load.Stop()
	if err == nil && r.objects {
		err = load.AwaitQuiet(ctx)
	}
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
	n := &r.nemesis
	n.Cluster, n.Random, n.Now = r.cluster, rand.New(rand.NewPCG(r.seed, nemesisStream)), r.recorder.Now
	faults := filepath.Join(r.dir, checker.FaultsFile)
	if err := os.WriteFile(faults, nil, 0o600); err != nil {
		return err
	}
	err := n.Run(ctx, r.more, func(f nemesis.Fault) error {
		r.report(f)
		return nemesis.Append(faults, f)
	})
	for err == nil && r.recorder.Count() < r.recorded() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// more says whether another fault is to come after so many.
func (r *running) more(done int) bool {
	if r.length > 0 {
		return time.Duration(r.recorder.Now()) < r.length
	}
	return done < r.count
}

// reportEvery is after how many faults a line says how far the run is.
const reportEvery = 10

func (r *running) report(f nemesis.Fault) {
	if r.done++; r.done%reportEvery == 0 || r.done == r.count {
		fmt.Fprintf(r.out, "%7.1fs  %d faults, %d operations\n", time.Duration(f.Ready).Seconds(), r.done, r.recorder.Count())
	}
}
