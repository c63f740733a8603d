package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// commitPoint is one way to commit.
type commitPoint struct {
	clients    int
	perFile    int // batches
	partitions int
	idempotent bool
}

func (p commitPoint) setup(nodes int) string {
	producer := ""
	if p.idempotent {
		producer = ", idempotent"
	}
	return fmt.Sprintf("%s, %s, %d a file, %d partitions%s", nodesText(nodes), clientsText(p.clients), p.perFile, p.partitions, producer)
}

// The number of clients that most targets speak of, and where they must not have
// become slower.
const (
	manyClients = 64
	mostClients = 256
)

// commitPoints are what is measured with as many nodes.
func (r *runner) commitPoints(nodes int) []commitPoint {
	var points []commitPoint
	for _, clients := range r.options.Scale.Clients {
		if nodes == 1 && !r.options.Scale.Wide && clients != 1 && clients != manyClients {
			continue
		}
		points = append(points, commitPoint{clients: clients, perFile: 10, partitions: usualPartitions})
	}
	if nodes == 1 {
		return points
	}
	variants := []commitPoint{
		{perFile: 1, partitions: usualPartitions}, {perFile: 100, partitions: usualPartitions}, {perFile: 10, partitions: usualPartitions, idempotent: true},
		{perFile: 10, partitions: 1_000}, {perFile: 10, partitions: 10_000},
	}
	for _, p := range variants {
		for _, clients := range []int{1, manyClients} {
			if clients == 1 && (!r.options.Scale.Wide || p.partitions > usualPartitions) {
				continue
			}
			p.clients = clients
			points = append(points, p)
		}
	}
	return points
}

// commit measures commits against the same entries on a state machine that does
// nothing.
func (r *runner) commit(ctx context.Context) error {
	for _, nodes := range r.options.Nodes {
		floor, err := newFloorCluster(ctx, r.dir, nodes)
		if err != nil {
			return err
		}
		err = r.withCluster(ctx, nodes, func(c *cluster) error { return r.commitOn(ctx, c, floor) })
		if err == nil && r.options.Sync == syncBoth {
			err = r.withClusterOf(ctx, nodes, raftnode.StateSyncAlways, func(c *cluster) error { return r.commitAlways(ctx, c, floor) })
		}
		if err := errors.Join(err, floor.remove()); err != nil {
			return err
		}
	}
	return nil
}

// commitAlways measures the usual commits on nodes that sync the state with every
// transaction.
func (r *runner) commitAlways(ctx context.Context, c *cluster, floor *floorCluster) error {
	t, err := c.createTopic(ctx, usualPartitions)
	if err != nil {
		return err
	}
	for _, clients := range r.options.Scale.Clients {
		p := commitPoint{clients: clients, perFile: 10, partitions: usualPartitions}
		r.step("commit: %s, state.sync always", p.setup(len(c.nodes)))
		line, err := r.commitPoint(ctx, c, floor, t, p)
		if err != nil {
			return err
		}
		line.Setup += ", state.sync always"
	}
	return nil
}

func (r *runner) commitOn(ctx context.Context, c *cluster, floor *floorCluster) error {
	topics, rates := map[int]topic{}, map[int]float64{}
	for _, p := range r.commitPoints(len(c.nodes)) {
		t, ok := topics[p.partitions]
		if !ok {
			var err error
			if t, err = c.createTopic(ctx, p.partitions); err != nil {
				return err
			}
			topics[p.partitions] = t
		}
		r.step("commit: %s", p.setup(len(c.nodes)))
		line, err := r.commitPoint(ctx, c, floor, t, p)
		if err != nil {
			return err
		}
		if p == (commitPoint{clients: p.clients, perFile: 10, partitions: usualPartitions}) && len(c.nodes) > 1 {
			rates[p.clients] = line.Rate
			line.commitTargets(p.clients, rates)
		}
	}
	return r.commitHTTP(ctx, c, topics[usualPartitions])
}

// usualPartitions are those that most targets speak of.
const usualPartitions = 100

// commitHTTP measures commits over HTTP against the same in process.
func (r *runner) commitHTTP(ctx context.Context, c *cluster, t topic) error {
	side, err := c.serve()
	if err != nil {
		return err
	}
	for _, clients := range []int{1, manyClients} {
		p := commitPoint{clients: clients, perFile: 10, partitions: usualPartitions}
		setup := p.setup(len(c.nodes)) + ", HTTP"
		r.step("commit: %s", setup)
		over, within := newFiles(t, clients, p.perFile, false), newFiles(t, clients, p.perFile, false)
		ours, bound, err := r.point(ctx, clients, over.commit(side.commitFile), within.commit(c.commitFile))
		if err != nil {
			return errors.Join(err, side.close(ctx))
		}
		r.add("commit", setup, "files/s", ours.figures()).against("in process", bound.figures())
	}
	return side.close(ctx)
}

func (r *runner) commitPoint(ctx context.Context, c *cluster, floor *floorCluster, t topic, p commitPoint) (*Line, error) {
	f := newFiles(t, p.clients, p.perFile, p.idempotent)
	entry, err := entryOf(filepath.Join(r.dir, "entry.db"), f.next(0))
	if err != nil {
		return nil, err
	}
	f = newFiles(t, p.clients, p.perFile, p.idempotent) // as if no file had been made
	ours, bound, err := r.point(ctx, p.clients, f.commit(c.commitFile), floor.apply(entry))
	if err != nil {
		return nil, err
	}
	line := r.add("commit", p.setup(len(c.nodes)), "files/s", ours.figures()).against("no-op raft", bound.figures())
	line.Note = usagePer(ours, bound)
	return line, nil
}

// commitTargets are those of three nodes, 10 batches a file and 100 partitions.
// rates are of the points so far, by clients.
func (l *Line) commitTargets(clients int, rates map[int]float64) {
	switch clients {
	case 1:
		l.atMost("p50 at most 1.25x the floor's", l.Floor.P50Ratio, 1.25)
	case manyClients:
		l.atLeast("at least 0.6 of the floor's rate", l.Floor.RateRatio, 0.6)
		l.atMost("p99 at most 4x p50", l.P99/l.P50, 4)
	case mostClients:
		if many := rates[manyClients]; many > 0 {
			l.atLeast("no slower than with 64 clients", l.Rate/many, 1)
		}
	}
}

// entryOf is the log entry of a write on an empty state.
func entryOf(path string, w ops.Write) (entry []byte, err error) {
	s, err := store.Open(path, store.Options{Sync: store.SyncNever})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	now := time.Now().UnixMilli()
	err = s.View(func(tx *store.ReadTx) error {
		command, err := w.Begin(ops.DefaultSettings()).Next(tx, now)
		if err != nil {
			return err
		}
		entry, err = ops.Encode(command, now)
		return err
	})
	return slices.Clone(entry), err
}
