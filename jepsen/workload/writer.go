package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// What writers do besides committing, as chances.
const (
	deleteChance   = 0.05 // delete records instead of a commit
	readBackChance = 0.30 // read an acknowledged commit back, stale, from any node
	resendChance   = 0.05 // send an acknowledged commit again
	freshKeyChance = 0.30 // retry an idempotent commit in another object
	giveUpChance   = 0.30 // leave a commit that is not idempotent without an answer
	patientChance  = 0.20 // wait as long as a reader, for what a node says that lost the lead
)

const (
	maxBatches = 3  // of a file, each of another partition
	maxRecords = 10 // of a batch
	maxSize    = 1000
)

// retryPause is how long a writer waits before it asks the next node.
const retryPause = 50 * time.Millisecond

// writer commits one file after the other. Those of even id are idempotent
// producers: they send a file until it is acknowledged, also in another object.
type writer struct {
	client
	files     int
	sequences map[int32]int32 // next, by partition
}

func (w *writer) run(ctx context.Context) {
	for w.running(ctx) {
		if w.chance(deleteChance) {
			w.deleteRecords(ctx)
		} else {
			w.commit(ctx, w.file())
		}
	}
}

func (w *writer) idempotent() bool { return w.id%2 == 0 }

// file is the next file of the writer.
func (w *writer) file() *ops.CommitFileRequest {
	r := &ops.CommitFileRequest{ObjectKey: w.key(), Format: 1, UploaderBrokerID: int32(w.id)}
	for _, p := range w.partitions(1 + w.random.IntN(maxBatches)) {
		records := 1 + w.random.Int32N(maxRecords)
		b := ops.CommitBatch{
			TopicID: topic, Partition: p, Magic: 2, ByteOffset: r.FileSize, ByteSize: 1 + w.random.Int64N(maxSize), LastOffset: int64(records) - 1,
			BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}
		if w.idempotent() {
			b.ProducerID, b.ProducerEpoch = int64(w.id), 0
			b.BaseSequence, b.LastSequence = w.sequences[p], w.sequences[p]+records-1
			w.sequences[p] += records
		}
		r.Batches = append(r.Batches, b)
		r.FileSize += b.ByteSize
	}
	return r
}

// key is an object key that was never used before.
func (w *writer) key() string {
	w.files++
	return fmt.Sprintf("wal/%d/%06d", w.id, w.files)
}

// commit sends a file to one node after the other. An idempotent producer cannot go
// on before it is acknowledged, or the run has ended.
func (w *writer) commit(ctx context.Context, request *ops.CommitFileRequest) {
	for {
		index, done := w.send(ctx, request)
		switch {
		case done:
			w.after(ctx, request, index)
			return
		case !w.wait(ctx, retryPause):
			return
		case !w.idempotent() && w.chance(giveUpChance):
			return
		case w.idempotent() && w.chance(freshKeyChance):
			// The object of the earlier attempt may be committed or not.
			again := *request
			again.ObjectKey = w.key()
			request = &again
		}
	}
}

// send is one attempt; index is that of its log entry.
func (w *writer) send(ctx context.Context, request *ops.CommitFileRequest) (index uint64, done bool) {
	timeout := writeTimeout
	if w.chance(patientChance) {
		timeout = readTimeout
	}
	ctx, end := w.begin(ctx, timeout)
	defer end()
	r := &history.Record{Op: "commit-file"}
	for i := range request.Batches {
		r.Logs = append(r.Logs, logsOf(request.Batches[i].Partition)...)
	}
	answer := ask(ctx, &w.client, w.anyNode(), r, api.ControlPlane.CommitFile, request)
	if answer == nil {
		return 0, false
	}
	for i, b := range answer.Batches {
		w.load.heard(b.Partition, b.LogStartOffset, b.AssignedBaseOffset+request.Batches[i].LastOffset+1)
	}
	return r.Index, true
}

// after is what follows an acknowledged commit now and then.
func (w *writer) after(ctx context.Context, request *ops.CommitFileRequest, index uint64) {
	if w.chance(resendChance) {
		w.send(ctx, request)
	}
	if w.chance(readBackChance) {
		w.readBack(ctx, request.Batches[0].Partition, index)
	}
}

// readBack reads what was just written, at a node that may not have it yet.
func (w *writer) readBack(ctx context.Context, p int32, index uint64) {
	ctx, end := w.begin(ctx, readTimeout)
	defer end()
	r := &history.Record{Op: "get-log-info", Logs: logsOf(p), Stale: true, MinIndex: index}
	ask(ctx, &w.client, w.anyNode(), r, api.ControlPlane.GetLogInfo, &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: topic, Partition: p}}})
}

// deleteRecords cuts a partition somewhere, now and then at its end.
func (w *writer) deleteRecords(ctx context.Context) {
	ctx, end := w.begin(ctx, writeTimeout)
	defer end()
	p := w.partitions(1)[0]
	at := w.load.position(p)
	offset := at.start + w.random.Int64N(max(at.end-at.start, 0)+1) // a start can be heard of before the end behind it
	if w.chance(0.2) {
		offset = -1
	}
	r := &history.Record{Op: "delete-records", Logs: logsOf(p)}
	request := &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: topic, Partition: p, Offset: offset}}}
	if answer := ask(ctx, &w.client, w.anyNode(), r, api.ControlPlane.DeleteRecords, request); answer != nil {
		w.load.heard(p, answer.Responses[0].LogStartOffset, -1)
	}
}
