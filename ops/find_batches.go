package ops

import (
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// FindBatchesRequest asks which batches to fetch from given offsets on.
type FindBatchesRequest struct {
	Requests               []FindBatches `json:"requests"`
	FetchMaxBytes          int32         `json:"fetch_max_bytes" min:"0" doc:"Budget in bytes for the whole request, spent in its order."`
	MaxBatchesPerPartition int64         `json:"max_batches_per_partition" default:"0" min:"0" doc:"0 = no limit."`
}

// FindBatches asks for one partition.
type FindBatches struct {
	TopicID                store.TopicID `json:"topic_id"`
	Partition              int32         `json:"partition" min:"0"`
	StartingOffset         int64         `json:"starting_offset"`
	MaxPartitionFetchBytes int32         `json:"max_partition_fetch_bytes" min:"0"`
}

// FindBatchesResponse answers each partition in the order of the request.
type FindBatchesResponse struct {
	Responses []FoundBatches `json:"responses"`
}

// FoundBatches is the answer for one partition.
type FoundBatches struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition"`
	Error          Code          `json:"error"`
	LogStartOffset int64         `json:"log_start_offset"`
	HighWatermark  int64         `json:"high_watermark"`
	Batches        []FoundBatch  `json:"batches"`
}

// FoundBatch says where one batch lies.
type FoundBatch struct {
	BatchID            int64         `json:"batch_id"`
	ObjectKey          string        `json:"object_key"`
	Magic              int8          `json:"magic"`
	TopicID            store.TopicID `json:"topic_id"`
	TopicName          string        `json:"topic_name"`
	Partition          int32         `json:"partition"`
	ByteOffset         int64         `json:"byte_offset"`
	ByteSize           int64         `json:"byte_size"`
	BaseOffset         int64         `json:"base_offset"`
	LastOffset         int64         `json:"last_offset"`
	LogAppendTimestamp int64         `json:"log_append_timestamp"`
	BatchMaxTimestamp  int64         `json:"batch_max_timestamp"`
	TimestampType      int8          `json:"timestamp_type"`
}

// Validate bounds the request.
func (r *FindBatchesRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Query reads only what it returns, however far behind the reader is.
func (r *FindBatchesRequest) Query(tx *store.ReadTx, lim Limits) (any, error) {
	answer := &FindBatchesResponse{Responses: make([]FoundBatches, len(r.Requests))}
	f := finder{tx: tx, bytesLeft: int64(r.FetchMaxBytes), rowsLeft: lim.AnswerRows, perPartition: lim.AnswerRows, empty: true}
	if r.MaxBatchesPerPartition > 0 {
		f.perPartition = int(min(r.MaxBatchesPerPartition, int64(lim.AnswerRows)))
	}
	for i := range r.Requests {
		if err := f.find(&r.Requests[i], &answer.Responses[i]); err != nil {
			return nil, fmt.Errorf("find batches: %w", err)
		}
	}
	return answer, nil
}

// finder spends the budgets of one request.
type finder struct {
	tx           *store.ReadTx
	bytesLeft    int64
	rowsLeft     int
	perPartition int
	empty        bool // no batch was admitted yet: the first one always is

	topicID   store.TopicID // of topicName
	topicName string
}

func (f *finder) find(r *FindBatches, a *FoundBatches) error {
	*a = FoundBatches{TopicID: r.TopicID, Partition: r.Partition, Error: None, LogStartOffset: -1, HighWatermark: -1, Batches: []FoundBatch{}}
	l, ok, err := f.tx.LiveLog(store.LogKey{Topic: r.TopicID, Partition: r.Partition})
	if err != nil {
		return err
	}
	if !ok {
		a.Error = UnknownTopicOrPartition
		return nil
	}
	a.LogStartOffset, a.HighWatermark = l.LogStartOffset, l.HighWatermark
	if r.StartingOffset < l.LogStartOffset || r.StartingOffset > l.HighWatermark {
		a.Error = OffsetOutOfRange
		return nil
	}
	return f.collect(&l, r, a)
}

func (f *finder) collect(l *store.Log, r *FindBatches, a *FoundBatches) error {
	partitionLeft := int64(r.MaxPartitionFetchBytes)
	c := f.tx.Batches(l, r.StartingOffset)
	for len(a.Batches) < f.perPartition && f.rowsLeft > 0 && (f.empty || (partitionLeft > 0 && f.bytesLeft > 0)) && c.Next() {
		b := c.Batch()
		partitionLeft -= b.ByteSize
		f.bytesLeft -= b.ByteSize
		f.rowsLeft--
		f.empty = false
		found, err := f.describe(b, r)
		if err != nil {
			return err
		}
		if len(a.Batches) == 0 {
			a.Batches = make([]FoundBatch, 0, min(f.perPartition, usualBatches))
		}
		a.Batches = append(a.Batches, found)
	}
	return c.Err()
}

// usualBatches is what most fetches take of a partition.
const usualBatches = 16

func (f *finder) describe(b *store.Batch, r *FindBatches) (FoundBatch, error) {
	if f.topicName == "" || f.topicID != r.TopicID {
		t, _, err := f.tx.Topic(r.TopicID)
		if err != nil {
			return FoundBatch{}, err
		}
		f.topicID, f.topicName = r.TopicID, t.Name
	}
	key, err := f.tx.ObjectKey(b.FileID)
	if err != nil {
		return FoundBatch{}, err
	}
	return FoundBatch{
		BatchID: int64(b.ID), ObjectKey: key, Magic: b.Magic, TopicID: r.TopicID, TopicName: f.topicName, Partition: r.Partition,
		ByteOffset: b.ByteOffset, ByteSize: b.ByteSize, BaseOffset: b.BaseOffset, LastOffset: b.LastOffset,
		LogAppendTimestamp: b.LogAppendTimestamp, BatchMaxTimestamp: b.BatchMaxTimestamp, TimestampType: b.TimestampType,
	}, nil
}
