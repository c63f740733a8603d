package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

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
	s, err := r.many(ctx)
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

// deepPartitions are those of a topic whose first one holds all batches.
const deepPartitions = 10

// loadDeep commits count batches into partition 0 of a new topic.
func (c *cluster) loadDeep(ctx context.Context, count int) (topic, error) {
	t, err := c.createTopic(ctx, deepPartitions)
	if err != nil {
		return t, err
	}
	return t, c.load(ctx, topic{id: t.id, partitions: 1}, count, loadPerFile)
}

// loadPerFile batches a file is how states are loaded where it makes no difference.
const loadPerFile = 100

const listOffsetsTarget = 200 // microseconds

// listOffsets measures the search by timestamp in one long partition.
func (r *runner) listOffsets(ctx context.Context) error {
	return r.withCluster(ctx, 1, func(c *cluster) error {
		count := r.options.Scale.Batches
		r.step("list-offsets: load %d batches into one partition", count)
		t, err := c.loadDeep(ctx, count)
		if err != nil {
			return err
		}
		s, err := measure(ctx, 1, r.options.Duration, func(ctx context.Context, _ int) error {
			q := &ops.ListOffsetsRequest{Requests: []ops.ListOffset{{TopicID: t.id, Timestamp: firstTimestamp + rand.Int64N(int64(count))}}}
			answer, err := read[ops.ListOffsetsResponse](ctx, c, raftnode.Stale, q)
			if err == nil && answer.Responses[0].Offset < 0 {
				err = fmt.Errorf("list-offsets: %s at %d", answer.Responses[0].Error, answer.Responses[0].Offset)
			}
			return err
		})
		if err != nil {
			return err
		}
		line := r.add("list-offsets", fmt.Sprintf("1 node, 1 client, by timestamp, partition of %d batches, stale", count), "calls/s", s.figures())
		line.within("p50 at most 200 us", line.P50, listOffsetsTarget)
		return nil
	})
}

// smallTopics are what a large one's deletion is compared with.
const (
	smallTopics  = 30
	smallBatches = 10
)

// deleteTopic measures delete-topics of small topics and of one large one.
func (r *runner) deleteTopic(ctx context.Context) error {
	for _, nodes := range r.options.Nodes {
		if err := r.withCluster(ctx, nodes, func(c *cluster) error { return r.deleteTopicOn(ctx, c) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) deleteTopicOn(ctx context.Context, c *cluster) error {
	count := r.options.Scale.Batches
	r.step("delete-topic: load %d batches on %s", count, nodesText(len(c.nodes)))
	large, err := c.loadDeep(ctx, count)
	if err != nil {
		return err
	}
	small := make([]topic, smallTopics)
	for i := range small {
		if small[i], err = c.createTopic(ctx, deepPartitions); err != nil {
			return err
		}
		if err := c.load(ctx, small[i], smallBatches, smallBatches); err != nil {
			return err
		}
	}
	remove := func(t topic) error {
		answer, err := write[ops.DeleteTopicsResponse](ctx, c, deleteRequest(t))
		if err == nil && answer.LogsDeleted != deepPartitions {
			err = fmt.Errorf("delete-topics: %d logs deleted of %d", answer.LogsDeleted, deepPartitions)
		}
		return err
	}
	few, err := repeat(ctx, smallTopics, func(i int) error { return remove(small[i]) })
	if err != nil {
		return err
	}
	one, err := repeat(ctx, 1, func(int) error { return remove(large) })
	if err != nil {
		return err
	}
	line := r.add("delete-topic", fmt.Sprintf("%s, 10 partitions, %d batches", nodesText(len(c.nodes)), count), "topics/s", one.figures())
	line.against(fmt.Sprintf("%d topics of %d batches", smallTopics, smallBatches), few.figures())
	line.atMost("no slower than the slowest small one", line.P50/line.Floor.Max, 1)
	return nil
}
