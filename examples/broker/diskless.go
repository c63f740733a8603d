package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
	switchover "github.com/cpnode/cpnode/switch"
)

// wal is diskless storage: records lie in objects, and the control plane gives them their
// offsets when the object is committed.
type wal struct {
	broker  int32
	plane   *api.Embedded
	objects objectstore.Store
}

var _ switchover.DisklessLog = (*wal)(nil)

// append writes a batch to an object of its own, and commits that. A real broker collects
// what all producers of some 100 ms send. It returns the offset of the first record; of a
// batch that was committed before, the offset that it got then.
func (w *wal) append(ctx context.Context, ref ops.LogRef, set *recordSet) (base int64, err error) {
	payload, err := set.encode()
	if err != nil {
		return 0, err
	}
	key := fmt.Sprintf("wal/%d/%s", w.broker, rand.Text())
	if err := w.objects.Put(ctx, key, bytes.NewReader(payload), int64(len(payload))); err != nil {
		return 0, err
	}
	answer, err := w.plane.CommitFile(ctx, &ops.CommitFileRequest{
		ObjectKey: key, Format: 1, UploaderBrokerID: w.broker, FileSize: int64(len(payload)),
		Batches: []ops.CommitBatch{{
			TopicID: ref.TopicID, Partition: ref.Partition, Magic: 2, ByteSize: int64(len(payload)),
			LastOffset: int64(len(set.Records)) - 1, BatchMaxTimestamp: set.TimestampMs,
			ProducerID: set.ProducerID, BaseSequence: set.BaseSequence, LastSequence: set.lastSequence(),
		}},
	})
	if err != nil {
		return 0, err
	}
	if b := answer.Batches[0]; b.Error != ops.None {
		return 0, fmt.Errorf("commit-file: %s", b.Error)
	}
	return answer.Batches[0].AssignedBaseOffset, nil
}

// Read implements switchover.DisklessLog.
func (w *wal) Read(ctx context.Context, ref ops.LogRef, offset int64, maxBytes int) ([]switchover.Batch, int64, error) {
	answer, err := w.plane.FindBatches(ctx, &ops.FindBatchesRequest{
		Requests:      []ops.FindBatches{{TopicID: ref.TopicID, Partition: ref.Partition, StartingOffset: offset, MaxPartitionFetchBytes: int32(maxBytes)}},
		FetchMaxBytes: int32(maxBytes),
	})
	if err != nil {
		return nil, 0, err
	}
	found := &answer.Responses[0]
	if found.Error != ops.None {
		return nil, 0, fmt.Errorf("find-batches at offset %d: %s", offset, found.Error)
	}
	batches := make([]switchover.Batch, len(found.Batches))
	for i, f := range found.Batches {
		payload, err := w.get(ctx, &f)
		if err != nil {
			return nil, 0, err
		}
		batches[i] = switchover.Batch{BaseOffset: f.BaseOffset, Records: int32(f.LastOffset - f.BaseOffset + 1), Payload: payload}
	}
	return batches, found.HighWatermark, nil
}

// get reads the bytes of one batch.
func (w *wal) get(ctx context.Context, f *ops.FoundBatch) ([]byte, error) {
	object, err := w.objects.Get(ctx, f.ObjectKey)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	if _, err := io.CopyN(io.Discard, object, f.ByteOffset); err != nil {
		return nil, err
	}
	payload := make([]byte, f.ByteSize)
	_, err = io.ReadFull(object, payload)
	return payload, err
}
