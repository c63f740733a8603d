package workload

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// quietPatience is how long the workers may take to clean up after all clients, and
// quietLook how often it is looked at.
const quietPatience, quietLook = 2 * time.Minute, 200 * time.Millisecond

// listed is how many topics or files a list may hold; there are fewer.
const listed = 1000

// AwaitQuiet waits, when all clients have stopped, until the nodes' workers have nothing
// left to do: no deleted topic, no file whose object waits to be deleted.
func (w *Workload) AwaitQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, quietPatience, fmt.Errorf("the workers still had work after %s", quietPatience))
	defer cancel()
	for {
		if quiet, err := w.quiet(ctx); err == nil && quiet {
			return nil
		}
		select {
		case <-time.After(quietLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Workload) quiet(ctx context.Context) (quiet bool, err error) {
	err = w.targets()[0].call(func(p api.ControlPlane) error {
		topics, err := p.ListTopics(ctx, &ops.ListTopicsRequest{Limit: listed})
		if err != nil {
			return err
		}
		files, err := p.ListFiles(ctx, &ops.ListFilesRequest{Limit: listed, State: "deleting"})
		if err != nil {
			return err
		}
		quiet = len(files.Files) == 0 && files.Next == "" && topics.Next == ""
		for _, t := range topics.Topics {
			quiet = quiet && t.DeletedAt < 0
		}
		return nil
	})
	return quiet, err
}

// readOwned records what a node holds of the owners' topics, and which topics and files
// it knows.
func (w *Workload) readOwned(ctx context.Context, node target, index uint64) error {
	c := w.client(writers + w.config.Readers)
	final := func(op string) *history.Record {
		return &history.Record{Group: history.GroupObjects, Op: op, Stale: true, MinIndex: index, Final: true}
	}
	for _, o := range w.owners {
		if o.topic.IsZero() {
			continue
		}
		where, q := &ops.GetLogInfoRequest{}, &ops.FindBatchesRequest{FetchMaxBytes: math.MaxInt32}
		for p := range int32(ownedLogs) {
			where.Requests = append(where.Requests, ops.LogRef{TopicID: o.topic, Partition: p})
		}
		info := ask(ctx, &c, node, final("get-log-info"), api.ControlPlane.GetLogInfo, where)
		if info == nil {
			return fmt.Errorf("node %s does not answer a read of topic %s", node.ID, o.topic)
		}
		for _, l := range info.Responses {
			q.Requests = append(q.Requests, ops.FindBatches{TopicID: o.topic, Partition: l.Partition, StartingOffset: max(0, l.LogStartOffset), MaxPartitionFetchBytes: math.MaxInt32})
		}
		if ask(ctx, &c, node, final("find-batches"), api.ControlPlane.FindBatches, q) == nil {
			return fmt.Errorf("node %s does not answer a read of topic %s", node.ID, o.topic)
		}
	}
	if ask(ctx, &c, node, final("list-topics"), api.ControlPlane.ListTopics, &ops.ListTopicsRequest{Limit: listed}) == nil ||
		ask(ctx, &c, node, final("list-files"), api.ControlPlane.ListFiles, &ops.ListFilesRequest{Limit: listed, State: "deleting"}) == nil {
		return fmt.Errorf("node %s does not list what it holds", node.ID)
	}
	return nil
}
