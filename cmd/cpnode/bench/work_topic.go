package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

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
