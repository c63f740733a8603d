package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/workload"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// Result is what became of a scenario.
type Result struct {
	// Failures are what must not be, and was; none is a run that holds.
	Failures []string
	// Diary is what happened, a line each.
	Diary []string
	// Trace is a hash of the diary, the history, and how each node ended: runs with the
	// same went the same way.
	Trace string

	Simulated  time.Duration  // time in the cluster
	Nodes      int            // of the cluster
	Operations map[string]int // of clients, refused ones included, by name
	Faults     map[Kind]int   // carried out
	Skipped    map[Kind]int   // not carried out, since it was not the time for them
}

// owners are the clients with topics of their own.
const owners = 4

// operationsFor is how many operations the clients of one history are meant to make.
const operationsFor = 1500

// bounds of waits for what comes without anybody's help once all faults are over.
const (
	beginWithin  = 2 * time.Minute
	mendWithin   = 5 * time.Minute
	quietWithin  = 5 * time.Minute
	settleWithin = 2 * time.Minute
)

// run is one run of a scenario.
type run struct {
	*cluster
	dir      string
	recorder *history.Recorder
	load     *workload.Workload
	owners   []*owner
	brokers  *brokers
	ends     []string // of nodes, a line each
}

// Run runs a scenario in dir, which is empty or missing and best in memory, on
// simulated time, and judges it. The history of what clients saw is left in dir. verbose
// prints the nodes' logs. No bubble of synctest may be around t.
//
// What is drawn at random comes from the seed, where GODEBUG has randseednop=0 also
// raft's times.
func Run(t *testing.T, s *Scenario, dir string, verbose bool) *Result {
	defer seedGlobals(s.Seed)()
	var r *run
	var took time.Duration
	inBubble(t, func() {
		r = &run{cluster: newCluster(s, dir, verbose), dir: dir}
		r.execute()
		took = time.Since(r.began)
		if left := leftBehind(); left != "" {
			r.fail("goroutines are left when all nodes have stopped:\n%s", left)
		}
	})
	result := &Result{Diary: r.diary, Simulated: took, Nodes: s.Nodes, Operations: map[string]int{}, Faults: r.faults, Skipped: r.skipped}
	clients := r.owners
	if r.brokers != nil {
		clients = append(clients, r.brokers.owner)
	}
	for _, o := range clients {
		for name, n := range o.done {
			result.Operations[name] += n
		}
	}
	judged, err := judge(filepath.Join(dir, checker.HistoryFile), result.Operations)
	if err != nil {
		judged = append(judged, err.Error())
	}
	result.Failures = append(r.failures, judged...)
	result.Trace = r.trace()
	return result
}

// trace hashes what was seen of the run.
func (r *run) trace() string {
	h := sha256.New()
	for _, line := range slices.Concat(r.diary, r.ends) {
		fmt.Fprintln(h, line)
	}
	data, _ := os.ReadFile(filepath.Join(r.dir, checker.HistoryFile)) // none where the cluster did not form
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// judge checks the history, whose operations it counts.
func judge(path string, operations map[string]int) (failures []string, err error) {
	records, err := history.Read(path)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		operations[r.Op]++
	}
	config := checker.DefaultConfig()
	config.Excused = []ops.Code{ops.StorageFull, ops.NodeCorrupt}
	v, err := checker.CheckHistory(records, config)
	if err != nil {
		return nil, err
	}
	for _, violation := range v.Violations {
		failures = append(failures, violation.String())
	}
	return append(failures, v.Unknown...), nil
}

// execute runs the scenario in a bubble of simulated time.
func (r *run) execute() {
	c := r.cluster
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		c.fail("%v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.start(ctx)
	if err := r.live(ctx); err != nil {
		c.fail("%v", err)
	}
	cancel()
	c.living.Wait()
	r.checkFiles()
}

// live is everything between the start of the nodes and their end.
func (r *run) live(ctx context.Context) (err error) {
	if err := await(ctx, beginWithin, r.allReady); err != nil {
		return fmt.Errorf("the cluster does not form: %w", err)
	}
	if r.recorder, err = history.Create(filepath.Join(r.dir, checker.HistoryFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.recorder.Close()) }()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.work(ctx); err != nil {
		return err
	}
	if err := await(ctx, quietWithin, func() error { return r.quiet(ctx) }); err != nil {
		return fmt.Errorf("the cluster does not come to rest: %w", err)
	}
	return r.readAll(ctx)
}

// prepare makes the clients and what they work on.
func (r *run) prepare(ctx context.Context) (err error) {
	config := workload.Config{Readers: workload.ReadersPerNode * len(r.nodes), Seed: r.scenario.Seed, Operations: operationsFor, Duration: Length}
	for _, n := range r.nodes {
		config.Nodes = append(config.Nodes, workload.Endpoint{ID: n.peer.ID, Call: n.call})
	}
	if r.load, err = workload.New(config, r.recorder); err != nil {
		return err
	}
	if err := await(ctx, beginWithin, func() error { return r.load.Create(ctx) }); err != nil {
		return fmt.Errorf("no topic can be made: %w", err)
	}
	for i := range owners {
		r.owners = append(r.owners, newOwner(r.cluster, i))
	}
	r.brokers = newBrokers(r.cluster, owners)
	if err := await(ctx, beginWithin, func() error { return r.upgrade(ctx) }); err != nil {
		return fmt.Errorf("the cluster does not go up to its feature level: %w", err)
	}
	return await(ctx, settleWithin, func() error {
		_, err := r.settled(ctx)
		return err
	})
}

// upgrade raises the feature level to what all nodes know.
func (r *run) upgrade(ctx context.Context) error {
	n := nemesis{cluster: r.cluster}
	return n.atLeader(ctx, func(ctx context.Context, p *process) error {
		_, _, err := p.node.Upgrade(ctx, 0)
		return err
	})
}

// work lets the clients work through all faults, and until all is well again.
func (r *run) work(ctx context.Context) error {
	busy, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	r.load.Start(ctx)
	for _, o := range r.owners {
		working.Go(func() { o.live(busy) })
	}
	working.Go(func() { r.brokers.live(busy) })
	r.disturb(ctx)
	err := await(ctx, mendWithin, r.allReady)
	r.hopeless.Store(err != nil)
	stop()
	working.Wait()
	r.load.Stop()
	if err != nil {
		return fmt.Errorf("the cluster is not whole again %s after the last fault: %w", mendWithin, err)
	}
	for _, o := range r.owners {
		if !o.topic.IsZero() {
			o.check()
		}
	}
	return nil
}

// quiet is nil when nothing is left to do: every deleted log is purged, every object
// that nothing refers to is deleted, and all nodes hold the same.
func (r *run) quiet(ctx context.Context) error {
	for _, n := range r.nodes {
		p := n.running()
		if p == nil {
			return fmt.Errorf("node %s is down", n.peer.ID)
		}
	}
	m, err := r.nodes[0].head(ctx)
	switch {
	case err != nil:
		return err
	case m.Totals.DeletedLogs > 0 || m.Totals.FilesDeleting > 0:
		return fmt.Errorf("%d deleted logs are not purged, %d files not forgotten", m.Totals.DeletedLogs, m.Totals.FilesDeleting)
	}
	_, err = r.settled(ctx)
	return err
}

// readAll reads what every node holds, and compares it.
func (r *run) readAll(ctx context.Context) error {
	index, err := r.settled(ctx)
	if err != nil {
		return fmt.Errorf("the nodes do not stay where they are: %w", err)
	}
	if err := r.load.ReadAll(ctx, index); err != nil {
		return err
	}
	var first store.Meta
	for i, n := range r.nodes {
		m, err := n.head(ctx)
		switch {
		case err != nil:
			return err
		case i == 0:
			first = m
		case m.AppliedIndex == first.AppliedIndex && m.Digest != first.Digest:
			r.fail("nodes %s and %s hold different states at entry %d", r.nodes[0].peer.ID, n.peer.ID, m.AppliedIndex)
		}
	}
	return r.checkObjects(ctx)
}

// checkObjects looks for files whose object was deleted under them.
func (r *run) checkObjects(ctx context.Context) error {
	request := &ops.ListFilesRequest{State: "uploaded"}
	return r.nodes[0].call(func(p api.ControlPlane) error {
		answer, err := p.ListFiles(ctx, request)
		if err == nil {
			if gone := r.objects.gone(answer.Files); len(gone) > 0 {
				r.fail("objects of files in use were deleted: %v", gone)
			}
		}
		return err
	})
}

// checkFiles checks the state file of every node, which has stopped.
func (r *run) checkFiles() {
	for _, n := range r.nodes {
		report, err := store.Check(filepath.Join(n.disk.dir, "state.db"))
		if err != nil || len(report.Problems) > 0 {
			r.fail("the files of node %s: %v %v", n.peer.ID, report.Problems, err)
		}
		r.ends = append(r.ends, fmt.Sprintf("%s at entry %d, digest %s", n.peer.ID, report.AppliedIndex, report.Digest))
	}
}
