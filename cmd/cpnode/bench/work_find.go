package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// A fetch is of ten batches in each of ten partitions.
const (
	fetchPartitions = 10
	fetchRows       = 10
)

// findSpread is how much smaller the state of three nodes is: what a fetch costs
// beyond one node does not depend on it, and loading it does.
const findSpread = 10

// find measures find-batches over many batches against bare reads of as many rows.
func (r *runner) find(ctx context.Context) error {
	s, err := r.many(ctx, 1)
	if err != nil {
		return err
	}
	if err := r.findOn(ctx, s); err != nil {
		return err
	}
	for _, nodes := range r.options.Nodes {
		if nodes == 1 {
			continue
		}
		batches := r.options.Scale.Batches / findSpread
		r.step("load %d batches on %d nodes", batches, nodes)
		s, err := r.newStored(ctx, nodes, batches, storedPartitions(batches, 1000))
		if err != nil {
			return err
		}
		if err := errors.Join(r.findOn(ctx, s), s.remove()); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) findOn(ctx context.Context, s *stored) error {
	bare, err := newBareRows(r.dir, s.topic.partitions, s.batches/s.topic.partitions)
	if err != nil {
		return err
	}
	defer bare.remove() //nolint:errcheck // the run's directory goes with it
	floor := func(context.Context, int) error { return bare.read(fetchPartitions, fetchRows) }
	for _, level := range []raftnode.Level{raftnode.Stale, raftnode.Linearizable} {
		setup := fmt.Sprintf("%s, 1 client, 10 x 10 of %d, %d partitions, %s", nodesText(len(s.nodes)), s.batches, s.topic.partitions, levelText(level))
		r.step("find: %s", setup)
		ours, bound, err := r.point(ctx, 1, s.find(s.findBatches(level)), floor)
		if err != nil {
			return err
		}
		line := r.add("find", setup, "fetches/s", ours.figures()).against("bare bbolt, 100 rows by key", bound.figures())
		if level == raftnode.Stale {
			line.atMost("p50 at most 2.5x bare reads", line.Floor.P50Ratio, 2.5)
		}
	}
	if err := r.scanNote(ctx, bare); err != nil {
		return err
	}
	return r.findHTTP(ctx, s)
}

// findHTTP measures stale fetches over HTTP against the same in process.
func (r *runner) findHTTP(ctx context.Context, s *stored) error {
	side, err := s.serve()
	if err != nil {
		return err
	}
	setup := fmt.Sprintf("%s, 1 client, 10 x 10 of %d, %d partitions, stale, HTTP", nodesText(len(s.nodes)), s.batches, s.topic.partitions)
	r.step("find: %s", setup)
	ours, bound, err := r.point(ctx, 1, s.find(side.findBatches), s.find(s.findBatches(raftnode.Stale)))
	if err == nil {
		r.add("find", setup, "fetches/s", ours.figures()).against("in process", bound.figures())
	}
	return errors.Join(err, side.close(ctx))
}

// scanNote says what the same rows cost by ten seeks, without the object keys
// that a fetch answers.
func (r *runner) scanNote(ctx context.Context, bare *bareRows) error {
	s, err := measure(ctx, 1, r.options.Duration/4, func(context.Context, int) error { return bare.scan(fetchPartitions, fetchRows) })
	if err != nil {
		return err
	}
	line := &r.report.Lines[len(r.report.Lines)-1]
	line.Note = "the same rows by 10 bare seeks, without their object keys: p50 " + latency(microseconds(s.quantile(0.5)))
	return nil
}

func levelText(l raftnode.Level) string {
	if l == raftnode.Stale {
		return "stale"
	}
	return "linearizable"
}

// finder answers one fetch.
type finder func(context.Context, *ops.FindBatchesRequest) (*ops.FindBatchesResponse, error)

func (c *cluster) findBatches(level raftnode.Level) finder {
	return func(ctx context.Context, q *ops.FindBatchesRequest) (*ops.FindBatchesResponse, error) {
		return read[ops.FindBatchesResponse](ctx, c, level, q)
	}
}

// find is a call that fetches at random places.
func (s *stored) find(send finder) call {
	return func(ctx context.Context, _ int) error {
		answer, err := send(ctx, s.fetch(fetchPartitions, fetchRows))
		if err != nil {
			return err
		}
		return checkFetch(answer, fetchRows)
	}
}
