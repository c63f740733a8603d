package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// load is writers at work on a cluster, and all that was acknowledged to them.
type load struct {
	cluster *cluster
	topics  []loadTopic
	stop    chan struct{}
	writers *errgroup.Group
	failed  <-chan struct{} // closed when a writer had to give up

	mu       sync.Mutex
	acked    map[ackedBatch]string // -> object key
	first    *ops.CommitFileRequest
	answer   *ops.CommitFileResponse // to first
	files    int
	replayed int // answers to a commit that an earlier attempt had carried out
	lastAck  time.Time
	gap      time.Duration // longest time in which nobody was acknowledged anything
}

// loadTopic is a topic that writers write to, all its partitions with each file.
type loadTopic struct {
	id         store.TopicID
	name       string
	partitions int32
}

type ackedBatch struct {
	log    store.LogKey
	offset int64
}

const (
	loadRecords   = 10  // of a batch
	loadBatchSize = 512 // bytes
)

// startLoad makes the topics and starts writers.
func startLoad(ctx context.Context, c *cluster, writers int, topics ...loadTopic) (*load, error) {
	l := &load{cluster: c, topics: topics, stop: make(chan struct{}), acked: map[ackedBatch]string{}, lastAck: time.Now()}
	if err := l.createTopics(ctx); err != nil {
		return nil, err
	}
	l.writers, ctx = errgroup.WithContext(ctx)
	l.failed = ctx.Done()
	for id := range writers {
		w := &writer{load: l, id: id, sequences: map[store.LogKey]int32{}}
		l.writers.Go(func() error { return w.run(ctx) })
	}
	return l, nil
}

func (l *load) createTopics(ctx context.Context) error {
	request := &ops.CreateTopicsRequest{}
	for _, t := range l.topics {
		request.Topics = append(request.Topics, ops.CreateTopic{TopicID: t.id, TopicName: t.name, NumPartitions: t.partitions})
	}
	answer, err := l.cluster.all.CreateTopics(ctx, request)
	if err != nil {
		return err
	}
	for i, t := range answer.Topics {
		if err := refused("topic "+l.topics[i].name, t.Error); err != nil {
			return err
		}
	}
	return nil
}

// finish lets every writer have its last file acknowledged, and waits for them.
func (l *load) finish() error {
	close(l.stop)
	return l.writers.Wait()
}

// progress is what was acknowledged so far.
func (l *load) progress() (files, batches int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files, len(l.acked)
}

// writer commits one file after the other. Those of even id are idempotent
// producers.
type writer struct {
	load      *load
	id        int
	files     int
	attempts  int
	sequences map[store.LogKey]int32 // next, by log
}

func (w *writer) run(ctx context.Context) error {
	for {
		select {
		case <-w.load.stop:
			return nil
		default:
		}
		if err := w.commitOne(ctx); err != nil {
			return fmt.Errorf("writer %d: %w", w.id, err)
		}
		w.files++
	}
}

// commitOne sends one file to one node after the other, under one key, until it is
// acknowledged.
func (w *writer) commitOne(ctx context.Context) error {
	request := w.file()
	var answer *ops.CommitFileResponse
	err := eventually(ctx, "the acknowledgement of "+request.ObjectKey, func() (_ bool, err error) {
		node := w.load.cluster.nodes[(w.id+w.attempts)%len(w.load.cluster.nodes)]
		w.attempts++
		answer, err = node.client.CommitFile(ctx, request)
		if refusal := (&ops.Error{}); errors.As(err, &refusal) && refusal.Code == ops.InvalidRequest {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	return w.load.acknowledge(request, answer)
}

// file is the writer's next file: a batch for each partition of one of the topics
// in turn.
func (w *writer) file() *ops.CommitFileRequest {
	topic := w.load.topics[w.files%len(w.load.topics)]
	r := &ops.CommitFileRequest{ObjectKey: fmt.Sprintf("wal/writer-%d/%06d", w.id, w.files), Format: 1, UploaderBrokerID: int32(w.id)}
	for p := range topic.partitions {
		b := ops.CommitBatch{
			TopicID: topic.id, Partition: p, Magic: 2, ByteOffset: r.FileSize, ByteSize: loadBatchSize, LastOffset: loadRecords - 1,
			BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}
		if w.id%2 == 0 {
			log := store.LogKey{Topic: topic.id, Partition: p}
			b.ProducerID, b.ProducerEpoch = int64(w.id), 0
			b.BaseSequence, b.LastSequence = w.sequences[log], w.sequences[log]+loadRecords-1
			w.sequences[log] += loadRecords
		}
		r.Batches = append(r.Batches, b)
		r.FileSize += loadBatchSize
	}
	return r
}

// acknowledge takes in an answer. What no answer may ever say is an error.
func (l *load) acknowledge(r *ops.CommitFileRequest, a *ops.CommitFileResponse) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.files, l.gap, l.lastAck = l.files+1, max(l.gap, now.Sub(l.lastAck)), now
	if l.first == nil {
		l.first, l.answer = r, a
	}
	if a.Replayed {
		l.replayed++
	}
	for _, b := range a.Batches {
		if b.Error != ops.None || b.Duplicate {
			return fmt.Errorf("a batch of %s: %s, duplicate %t", r.ObjectKey, b.Error, b.Duplicate)
		}
		at := ackedBatch{store.LogKey{Topic: b.TopicID, Partition: b.Partition}, b.AssignedBaseOffset}
		if other, taken := l.acked[at]; taken {
			return fmt.Errorf("offset %d of partition %d given to %s and to %s", at.offset, at.log.Partition, other, r.ObjectKey)
		}
		l.acked[at] = r.ObjectKey
	}
	return nil
}
