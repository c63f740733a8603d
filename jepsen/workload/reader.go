package workload

import (
	"context"
	"math"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// What readers do, as chances; the rest are get-log-info.
const (
	findChance        = 0.50
	listOffsetsChance = 0.20
	staleChance       = 0.10 // of any read
)

const (
	pageBatches = 20 // of an answer while clients work
	// lookBack is how many records before the end most reads begin.
	lookBack = 40
)

// Kafka's special timestamps that list-offsets answers from the log alone.
var specialTimestamps = []int64{-1, -2, -4}

// reader asks one node, again and again.
type reader struct {
	client
	number int // among readers, which says what node it asks
}

func (r *reader) run(ctx context.Context) {
	for r.running(ctx) {
		r.readOne(ctx)
	}
}

func (r *reader) node() target {
	nodes := r.load.targets()
	return nodes[r.number%len(nodes)]
}

func (r *reader) readOne(ctx context.Context) {
	ctx, end := r.begin(ctx, readTimeout)
	defer end()
	partitions := r.partitions(1 + r.random.IntN(2))
	record := &history.Record{Logs: logsOf(partitions...)}
	if r.chance(staleChance) {
		record.Stale, record.MinIndex = true, r.load.created
	}
	switch kind := r.random.Float64(); {
	case kind < findChance:
		r.findBatches(ctx, record, partitions)
	case kind < findChance+listOffsetsChance:
		r.listOffsets(ctx, record, partitions)
	default:
		r.logInfo(ctx, record, partitions)
	}
}

func (r *reader) findBatches(ctx context.Context, record *history.Record, partitions []int32) {
	request := &ops.FindBatchesRequest{FetchMaxBytes: math.MaxInt32, MaxBatchesPerPartition: pageBatches}
	for _, p := range partitions {
		at := r.load.position(p)
		offset := max(at.start, at.end-r.random.Int64N(lookBack))
		request.Requests = append(request.Requests, findFrom(p, offset))
	}
	record.Op = "find-batches"
	answer := ask(ctx, &r.client, r.node(), record, api.ControlPlane.FindBatches, request)
	if answer == nil {
		return
	}
	for _, a := range answer.Responses {
		r.load.heard(a.Partition, a.LogStartOffset, a.HighWatermark)
	}
}

func findFrom(p int32, offset int64) ops.FindBatches {
	return ops.FindBatches{TopicID: topic, Partition: p, StartingOffset: offset, MaxPartitionFetchBytes: math.MaxInt32}
}

func (r *reader) listOffsets(ctx context.Context, record *history.Record, partitions []int32) {
	request := &ops.ListOffsetsRequest{}
	for _, p := range partitions {
		timestamp := specialTimestamps[r.random.IntN(len(specialTimestamps))]
		request.Requests = append(request.Requests, ops.ListOffset{TopicID: topic, Partition: p, Timestamp: timestamp})
	}
	record.Op = "list-offsets"
	ask(ctx, &r.client, r.node(), record, api.ControlPlane.ListOffsets, request)
}

func (r *reader) logInfo(ctx context.Context, record *history.Record, partitions []int32) {
	request := &ops.GetLogInfoRequest{}
	for _, p := range partitions {
		request.Requests = append(request.Requests, ops.LogRef{TopicID: topic, Partition: p})
	}
	record.Op = "get-log-info"
	ask(ctx, &r.client, r.node(), record, api.ControlPlane.GetLogInfo, request)
}
