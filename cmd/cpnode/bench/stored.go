package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// stored is a cluster that holds many batches in one topic.
type stored struct {
	*cluster
	topic   topic
	batches int
	ends    []int64 // high watermark of each partition when it was loaded
}

// storedPerFile batches a file is the contract's usual case.
const storedPerFile = 10

// newStored loads batches over partitions.
func (r *runner) newStored(ctx context.Context, nodes, batches, partitions int) (*stored, error) {
	c, err := newCluster(ctx, r.dir, nodes, r.options.stateSync())
	if err != nil {
		return nil, err
	}
	s := &stored{cluster: c, batches: batches}
	if err := s.fill(ctx, partitions); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return s, nil
}

func (s *stored) fill(ctx context.Context, partitions int) (err error) {
	if s.topic, err = s.createTopic(ctx, partitions); err != nil {
		return err
	}
	if err := s.load(ctx, s.topic, s.batches, storedPerFile); err != nil {
		return err
	}
	return s.readEnds(ctx)
}

func (s *stored) readEnds(ctx context.Context) error {
	q := &ops.GetLogInfoRequest{}
	for p := range s.topic.partitions {
		q.Requests = append(q.Requests, ops.LogRef{TopicID: s.topic.id, Partition: int32(p)})
	}
	answer, err := read[ops.GetLogInfoResponse](ctx, s.cluster, raftnode.Linearizable, q)
	if err != nil {
		return err
	}
	s.ends = s.ends[:0]
	for i := range answer.Responses {
		s.ends = append(s.ends, answer.Responses[i].HighWatermark)
	}
	return nil
}

// many is the state of Scale.Batches in up to 1,000 partitions, loaded when it is
// first asked for and shared by the works that need one.
func (r *runner) many(ctx context.Context, nodes int) (*stored, error) {
	if s, ok := r.stored[nodes]; ok {
		return s, nil
	}
	batches := r.options.Scale.Batches
	r.step("load %d batches on %s", batches, nodesText(nodes))
	s, err := r.newStored(ctx, nodes, batches, storedPartitions(batches, 1000))
	if err == nil {
		r.stored[nodes] = s
	}
	return s, err
}

// storedPartitions is most, or what leaves each partition enough batches to find
// ten in a row at random places.
func storedPartitions(batches, most int) int { return max(10, min(most, batches/50)) }

// fetch is a find-batches request of rows batches in each of a number of distinct
// random partitions, from random batches on.
func (s *stored) fetch(partitions, rows int) *ops.FindBatchesRequest {
	q := &ops.FindBatchesRequest{FetchMaxBytes: math.MaxInt32, MaxBatchesPerPartition: int64(rows)}
	first, stride := rand.IntN(s.topic.partitions), s.topic.partitions/partitions
	for i := range partitions {
		p := (first + i*stride) % s.topic.partitions
		starts := s.ends[p]/recordsPerBatch - int64(rows) + 1
		q.Requests = append(q.Requests, ops.FindBatches{TopicID: s.topic.id, Partition: int32(p),
			StartingOffset: rand.Int64N(max(1, starts)) * recordsPerBatch, MaxPartitionFetchBytes: math.MaxInt32})
	}
	return q
}

// checkFetch makes sure that all that was asked for was found.
func checkFetch(answer *ops.FindBatchesResponse, rows int) error {
	for i := range answer.Responses {
		if a := &answer.Responses[i]; a.Error != ops.None || len(a.Batches) != rows {
			return fmt.Errorf("find-batches: partition %d: %s with %d batches of %d", a.Partition, a.Error, len(a.Batches), rows)
		}
	}
	return nil
}
