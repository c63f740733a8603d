package workload

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	owners     = 2
	ownedLogs  = 2
	firstOwner = 1000 // its client id
	// ownerPause is what owners rest between operations, on average.
	ownerPause = 100 * time.Millisecond
)

// owner is a client with a topic and objects of its own, which nobody else touches but
// the nodes' workers. It repeats each request until it is answered. So whoever reads
// its part of the history knows what every answer must be.
type owner struct {
	client
	topic store.TopicID // zero while there is none
	made  int           // topics
	files int
	logs  [ownedLogs]ownedLog
}

// ownedLog is what the owner was told of a partition.
type ownedLog struct {
	start, end int64
	next       int32 // sequence of its producer
}

func newOwner(w *Workload, i int) *owner { return &owner{client: w.client(firstOwner + i)} }

// run works until the run ends, and leaves nothing unanswered.
func (o *owner) run(ctx context.Context) {
	for o.wait(ctx, time.Duration(o.random.Int64N(int64(2*ownerPause)))) {
		o.step(ctx)
	}
}

func (o *owner) step(ctx context.Context) {
	if o.topic.IsZero() {
		o.create(ctx)
		return
	}
	switch p := o.random.IntN(100); {
	case p < 52:
		o.commit(ctx)
	case p < 70:
		o.read(ctx)
	case p < 77:
		o.deleteRecords(ctx)
	case p < 84:
		o.prune(ctx)
	case p < 88:
		o.retain(ctx)
	case p < 91:
		o.purge(ctx)
	case p < 95:
		o.fence(ctx)
	default:
		o.delete(ctx)
	}
}

// insist sends a request to one node after the other until it is answered, or refused
// for a reason that stays. What it says of its reads is in answer; it is nil without one.
func insist[Q, A any](ctx context.Context, o *owner, op string, m method[Q, A], q *Q) (answer *A) {
	for ctx.Err() == nil {
		attempt, end := o.begin(ctx, writeTimeout)
		r := &history.Record{Group: history.GroupObjects, Op: op}
		answer = ask(attempt, &o.client, o.anyNode(), r, m, q)
		end()
		if r.Outcome == history.OK || !passing[r.Error] {
			return answer
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
	return nil
}

// passing are errors after which a request is repeated.
var passing = map[ops.Code]bool{
	"": true, ops.NoLeader: true, ops.ShuttingDown: true, ops.OutcomeUnknown: true, ops.NotCaughtUp: true, ops.Overloaded: true, ops.StorageFull: true, ops.NodeCorrupt: true, ops.Internal: true,
}

func (o *owner) create(ctx context.Context) {
	o.made++
	o.logs = [ownedLogs]ownedLog{}
	o.topic = store.TopicID{0x0a, byte(o.id - firstOwner), 6: 0x40, 8: 0x80, 14: byte(o.made >> 8), 15: byte(o.made)}
	insist(ctx, o, "create-topics", api.ControlPlane.CreateTopics, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{
		TopicID: o.topic, TopicName: fmt.Sprintf("owned-%d", o.id), NumPartitions: ownedLogs, Config: map[string]string{},
	}}})
}

// key is an object key that was never used before.
func (o *owner) key() string {
	o.files++
	return fmt.Sprintf("owned/%d/%06d", o.id, o.files)
}

// commit puts an object with a batch of each partition into the store, and commits it.
func (o *owner) commit(ctx context.Context) {
	q := &ops.CommitFileRequest{ObjectKey: o.key(), Format: 1, UploaderBrokerID: int32(o.id)}
	for p := range int32(ownedLogs) {
		records := 1 + o.random.Int32N(maxRecords)
		b := ops.CommitBatch{
			TopicID: o.topic, Partition: p, Magic: 2, ByteOffset: q.FileSize, ByteSize: 1 + o.random.Int64N(maxSize), LastOffset: int64(records) - 1,
			BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}
		if p == 0 {
			l := &o.logs[p]
			b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.LastSequence = int64(o.id), 0, l.next, l.next+records-1
			l.next += records
		}
		q.Batches = append(q.Batches, b)
		q.FileSize += b.ByteSize
	}
	if err := o.put(ctx, q.ObjectKey, q.FileSize); err != nil {
		return // the run ends
	}
	answer := insist(ctx, o, "commit-file", api.ControlPlane.CommitFile, q)
	if answer == nil {
		return
	}
	for i := range answer.Batches {
		o.logs[i].end += q.Batches[i].LastOffset + 1
	}
}

func (o *owner) put(ctx context.Context, key string, size int64) error {
	return o.load.config.Objects.Put(ctx, key, bytes.NewReader(history.ObjectBytes(key, size)), size)
}

// read reads a partition from its start, and the objects of some of the batches that it
// finds: they must be there as long as batches refer to them.
func (o *owner) read(ctx context.Context) {
	p := o.random.Int32N(ownedLogs)
	l := &o.logs[p]
	q := &ops.FindBatchesRequest{Requests: []ops.FindBatches{{TopicID: o.topic, Partition: p, StartingOffset: l.start, MaxPartitionFetchBytes: math.MaxInt32}}, FetchMaxBytes: math.MaxInt32}
	answer := insist(ctx, o, "find-batches", api.ControlPlane.FindBatches, q)
	if answer == nil {
		return
	}
	found := answer.Responses[0]
	l.start = max(l.start, found.LogStartOffset)
	const looked = 3
	for range min(looked, len(found.Batches)) {
		o.readObject(ctx, &found.Batches[o.random.IntN(len(found.Batches))])
	}
}

func (o *owner) readObject(ctx context.Context, b *ops.FoundBatch) {
	r := &history.Record{Group: history.GroupObjects, Client: o.id, Op: history.ReadObject, Request: marshal(b), Invoke: o.load.recorder.Now(), Outcome: history.OK}
	answer := history.Object{}
	if body, err := o.load.config.Objects.Get(ctx, b.ObjectKey); err == nil {
		data, err := io.ReadAll(body)
		body.Close()
		answer = history.Object{Found: err == nil, Size: int64(len(data)), Sum: history.ObjectSum(data)}
	}
	r.Response, r.Return = marshal(&answer), o.load.recorder.Now()
	o.load.recorder.Add(r)
}

func (o *owner) deleteRecords(ctx context.Context) {
	p := o.random.Int32N(ownedLogs)
	l := &o.logs[p]
	to := l.start + o.random.Int64N(l.end-l.start+1)
	answer := insist(ctx, o, "delete-records", api.ControlPlane.DeleteRecords, &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: o.topic, Partition: p, Offset: to}}})
	if answer != nil {
		l.start = max(l.start, answer.Responses[0].LogStartOffset)
	}
}

// prune says that tiered storage holds a part.
func (o *owner) prune(ctx context.Context) {
	p := o.random.Int32N(ownedLogs)
	l := &o.logs[p]
	highest := l.start + o.random.Int64N(l.end-l.start+1) - 1
	answer := insist(ctx, o, "prune-diskless-logs", api.ControlPlane.PruneDisklessLogs, &ops.PruneDisklessLogsRequest{
		Requests: []ops.PruneLog{{TopicID: o.topic, Partition: p, HighestRemoteOffset: highest}}, MaxBatches: 3,
	})
	if answer != nil {
		l.start = max(l.start, answer.Responses[0].LogStartOffset)
	}
}

func (o *owner) retain(ctx context.Context) {
	answer := insist(ctx, o, "enforce-retention", api.ControlPlane.EnforceRetention, &ops.EnforceRetentionRequest{
		Requests: []ops.EnforceRetention{{TopicID: o.topic, Partition: 1, RetentionBytes: 20 * maxSize, RetentionMs: -1}}, MaxBatchesPerRequest: 5,
	})
	if answer != nil {
		o.logs[1].start = max(o.logs[1].start, answer.Responses[0].LogStartOffset)
	}
}

func (o *owner) purge(ctx context.Context) {
	insist(ctx, o, "purge-deleted-logs", api.ControlPlane.PurgeDeletedLogs, &ops.PurgeDeletedLogsRequest{MaxBatches: 10})
}

// fence asks whether an object that was never committed may be deleted, and commits it
// all the same, which must be refused.
func (o *owner) fence(ctx context.Context) {
	key := o.key()
	insist(ctx, o, "is-safe-to-delete-file", api.ControlPlane.IsSafeToDeleteFile, &ops.IsSafeToDeleteFileRequest{ObjectKey: key, Fence: true})
	insist(ctx, o, "commit-file", api.ControlPlane.CommitFile, &ops.CommitFileRequest{ObjectKey: key, Format: 1, FileSize: 100, Batches: []ops.CommitBatch{{
		TopicID: o.topic, Partition: 1, Magic: 2, ByteSize: 100, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
	}}})
}

// delete deletes the topic, whose name is free then.
func (o *owner) delete(ctx context.Context) {
	insist(ctx, o, "delete-topics", api.ControlPlane.DeleteTopics, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{o.topic}})
	insist(ctx, o, "get-log-info", api.ControlPlane.GetLogInfo, &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: o.topic}}})
	o.topic = store.TopicID{}
}
