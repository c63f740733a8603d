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
	for _, node := range w.targets() {
		if err := w.readAll(ctx, node, history.Record{Stale: true, MinIndex: index, Final: true}); err != nil {
			return err
		}
		if w.config.Objects != nil {
			if err := w.readOwned(ctx, node, index); err != nil {
				return err
			}
		}
		if w.config.Brokers {
			if err := w.ensemble.readAll(ctx, node, index); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadThrough records, while all clients rest, every partition from its start to its
// end by linearizable reads: what was acknowledged before must be there.
func (w *Workload) ReadThrough(ctx context.Context) error {
	return w.readAll(ctx, w.targets()[0], history.Record{})
}

// readAll reads all partitions from one node, batches in reads of this kind.
func (w *Workload) readAll(ctx context.Context, node target, kind history.Record) error {
	c := w.client(writers + w.config.Readers)
	for p := range int32(len(w.seen)) {
		if err := readLog(ctx, &c, node, p, kind); err != nil {
			return err
		}
	}
	return nil
}

// readLog reads one partition from one node: its offsets by a linearizable read
// always, so that they are those of all nodes.
func readLog(ctx context.Context, c *client, node target, p int32, kind history.Record) error {
	request := &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: topic, Partition: p}}}
	info := ask(ctx, c, node, &history.Record{Op: "get-log-info", Logs: logsOf(p), Final: kind.Final}, api.ControlPlane.GetLogInfo, request)
	if info == nil {
		return fmt.Errorf("node %s does not answer a read of partition %d", node.ID, p)
	}
	offset := info.Responses[0].LogStartOffset
	for {
		record := kind
		record.Op, record.Logs = "find-batches", logsOf(p)
		find := &ops.FindBatchesRequest{Requests: []ops.FindBatches{findFrom(p, offset)}, FetchMaxBytes: math.MaxInt32, MaxBatchesPerPartition: finalPage}
		answer := ask(ctx, c, node, &record, api.ControlPlane.FindBatches, find)
		if answer == nil {
			return fmt.Errorf("node %s does not answer a read of partition %d", node.ID, p)
		}
		batches := answer.Responses[0].Batches
		if len(batches) == 0 {
			return nil
		}
		offset = batches[len(batches)-1].LastOffset + 1
	}
}
