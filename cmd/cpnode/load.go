package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// load is what writers committed, as far as it was acknowledged.
type load struct {
	cluster *cluster

	mu    sync.Mutex
	acked map[ackedBatch]string // -> object key
	count int
	gap   time.Duration
}

type ackedBatch struct {
	log    store.LogKey
	offset int64
}

const loadOffsets = 10 // records a batch

func newLoad(c *cluster) *load { return &load{cluster: c, acked: map[ackedBatch]string{}} }

func (l *load) batches() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.acked) }

func (l *load) files() int { l.mu.Lock(); defer l.mu.Unlock(); return l.count }

func (l *load) longest() time.Duration { l.mu.Lock(); defer l.mu.Unlock(); return l.gap }

// start runs writers until stop; the channel gets the first error, or nil at the end.
func (l *load) start(ctx context.Context, writers int, stop *atomic.Bool) <-chan error {
	errs := make(chan error, writers)
	for w := range writers {
		go func() { errs <- l.write(ctx, w, stop) }()
	}
	done := make(chan error, 1)
	go func() {
		var first error
		for range writers {
			if err := <-errs; err != nil && first == nil {
				first = err
			}
		}
		done <- first
	}()
	return done
}

// write commits files, each again and again under the
// same key until it is acknowledged.
func (l *load) write(ctx context.Context, writer int, stop *atomic.Bool) error {
	for i := 0; !stop.Load(); i++ {
		request := demoFile(writer, i)
		began := time.Now()
		var answer *ops.CommitFileResponse
		err := eventually(ctx, "a commit", func() bool {
			node := l.cluster.nodes[(writer+i)%len(l.cluster.nodes)]
			attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			a, _, err := call[ops.CommitFileResponse](attempt, l.cluster, node, "commit-file", "", request)
			if err != nil {
				i++ // ask another node; the key stays
				return false
			}
			answer = a
			return true
		})
		if err != nil {
			return err
		}
		if err := l.acknowledge(request, answer, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

func demoFile(writer, i int) *ops.CommitFileRequest {
	r := &ops.CommitFileRequest{ObjectKey: fmt.Sprintf("wal/writer-%d/%06d-%d", writer, i, time.Now().UnixNano()), Format: 1, UploaderBrokerID: int32(writer)}
	add := func(topic store.TopicID, partition int32) {
		r.Batches = append(r.Batches, ops.CommitBatch{
			TopicID: topic, Partition: partition, Magic: 2, ByteOffset: r.FileSize, ByteSize: 512, LastOffset: loadOffsets - 1,
			BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		})
		r.FileSize += 512
	}
	for p := range demoPartitions {
		add(demoOrders, int32(p))
	}
	if i%2 == 0 {
		r.Batches = nil
		r.FileSize = 0
		add(demoAudit, int32(writer%2))
	}
	return r
}

func (l *load) acknowledge(r *ops.CommitFileRequest, a *ops.CommitFileResponse, took time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.gap = max(l.gap, took)
	for _, b := range a.Batches {
		if b.Error != ops.None {
			return fmt.Errorf("batch of %s refused: %s", r.ObjectKey, b.Error)
		}
		key := ackedBatch{store.LogKey{Topic: b.TopicID, Partition: b.Partition}, b.AssignedBaseOffset}
		if other, taken := l.acked[key]; taken {
			return fmt.Errorf("offset %d given to %s and to %s", b.AssignedBaseOffset, other, r.ObjectKey)
		}
		l.acked[key] = r.ObjectKey
	}
	return nil
}

// verify reads every log from every node and counts the acknowledged batches
// that all of them have at their offset and in their object.
func (l *load) verify(ctx context.Context, c *cluster) (int, error) {
	if err := c.settle(ctx); err != nil {
		return 0, err
	}
	least := math.MaxInt
	for _, n := range c.nodes {
		for _, query := range []string{"", "?consistency=stale"} {
			found, err := l.foundOn(ctx, c, n, query)
			if err != nil {
				return 0, err
			}
			least = min(least, found)
		}
	}
	return least, nil
}

func (l *load) foundOn(ctx context.Context, c *cluster, n *process, query string) (found int, err error) {
	logs := map[store.LogKey]bool{}
	for k := range l.acked {
		logs[k.log] = true
	}
	for log := range logs {
		offset, high := int64(0), int64(1)
		for offset < high {
			answer, _, err := call[ops.FindBatchesResponse](ctx, c, n, "find-batches", query, &ops.FindBatchesRequest{
				Requests:      []ops.FindBatches{{TopicID: log.Topic, Partition: log.Partition, StartingOffset: offset, MaxPartitionFetchBytes: math.MaxInt32}},
				FetchMaxBytes: math.MaxInt32, MaxBatchesPerPartition: 5000,
			})
			if err != nil {
				return 0, err
			}
			r := &answer.Responses[0]
			high = r.HighWatermark
			for _, b := range r.Batches {
				if l.acked[ackedBatch{log, b.BaseOffset}] == b.ObjectKey {
					found++
				}
				offset = b.LastOffset + 1
			}
			if len(r.Batches) == 0 {
				break
			}
		}
	}
	return found, nil
}
