package workload

import (
	"context"
	"fmt"
	"math"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// finalPage is how many batches a read of the end asks for at a time.
const finalPage = 2000

// ReadAll records, when all clients have stopped and all nodes have applied the
// entry at index, what each node holds: every partition from its start to its end.
func (w *Workload) ReadAll(ctx context.Context, index uint64) error {
	c := w.client(writers + readersPerNode*len(w.nodes))
	for node := range w.nodes {
		for p := range int32(len(w.seen)) {
			if err := readLog(ctx, &c, node, p, index); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLog reads one partition from one node: its offsets by a linearizable read too,
// so that they are those of all nodes.
func readLog(ctx context.Context, c *client, node int, p int32, index uint64) error {
	request := &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: topic, Partition: p}}}
	info := ask(ctx, c, node, &history.Record{Op: "get-log-info", Logs: logsOf(p), Final: true}, (*api.Client).GetLogInfo, request)
	if info == nil {
		return fmt.Errorf("node %s does not answer the final read of partition %d", c.load.config.Nodes[node].ID, p)
	}
	offset := info.Responses[0].LogStartOffset
	for {
		record := &history.Record{Op: "find-batches", Logs: logsOf(p), Stale: true, MinIndex: index, Final: true}
		find := &ops.FindBatchesRequest{Requests: []ops.FindBatches{findFrom(p, offset)}, FetchMaxBytes: math.MaxInt32, MaxBatchesPerPartition: finalPage}
		answer := ask(ctx, c, node, record, (*api.Client).FindBatches, find)
		if answer == nil {
			return fmt.Errorf("node %s does not answer the final read of partition %d", c.load.config.Nodes[node].ID, p)
		}
		batches := answer.Responses[0].Batches
		if len(batches) == 0 {
			return nil
		}
		offset = batches[len(batches)-1].LastOffset + 1
	}
}
