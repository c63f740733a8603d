package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/report"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	topicName   = "million"
	partitions  = 1000
	loadPerFile = 50  // batches a file while the state is filled
	loadClients = 64  // the same
	perFile     = 10  // batches a file of the commits that are measured
	records     = 10  // a batch
	batchBytes  = 512 // of an object
)

// committer commits files to the topic.
type committer struct {
	client *api.Client
	topic  store.TopicID
}

// createTopic makes the topic that all batches go to.
func createTopic(ctx context.Context, client *api.Client) (*committer, error) {
	c := &committer{client: client, topic: randomID()}
	answer, err := client.CreateTopics(ctx, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{
		TopicID: c.topic, TopicName: topicName, NumPartitions: partitions, Config: map[string]string{},
	}}})
	if err == nil && answer.Topics[0].Error != ops.None {
		err = fmt.Errorf("create the topic: %s", answer.Topics[0].Error)
	}
	return c, err
}

func randomID() (id store.TopicID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// commit commits a file of batches in as many partitions, drawn at random.
func (c *committer) commit(ctx context.Context, batches int) error {
	r := &ops.CommitFileRequest{ObjectKey: "wal/" + randomID().String(), Format: 1, FileSize: int64(batches) * 2 * batchBytes}
	first := rand.IntN(partitions)
	for i := range batches {
		r.Batches = append(r.Batches, ops.CommitBatch{
			TopicID: c.topic, Partition: int32((first + i*(partitions/batches)) % partitions), Magic: 2, ByteOffset: int64(i) * 2 * batchBytes,
			ByteSize: batchBytes, LastOffset: records - 1, BatchMaxTimestamp: time.Now().UnixMilli(),
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		})
	}
	answer, err := c.client.CommitFile(ctx, r)
	if err != nil {
		return err
	}
	for _, b := range answer.Batches {
		if b.Error != ops.None {
			return fmt.Errorf("commit: %s", b.Error)
		}
	}
	return nil
}

// fill commits files of loadPerFile batches until there are as many batches.
func (c *committer) fill(ctx context.Context, batches int) error {
	var left atomic.Int64
	left.Store(int64(batches / loadPerFile))
	group, ctx := errgroup.WithContext(ctx)
	for range loadClients {
		group.Go(func() (err error) {
			for err == nil && left.Add(-1) >= 0 {
				err = c.commit(ctx, loadPerFile)
			}
			return err
		})
	}
	return group.Wait()
}

// load is clients that commit one file after the other.
type load struct {
	began   time.Time
	group   *errgroup.Group
	ctx     context.Context // ends with the first error
	stopped atomic.Bool

	mu        sync.Mutex
	latencies []time.Duration
}

func (c *committer) start(ctx context.Context, clients int) *load {
	l := &load{began: time.Now()}
	l.group, l.ctx = errgroup.WithContext(ctx)
	for range clients {
		l.group.Go(func() error {
			for !l.stopped.Load() {
				began := time.Now()
				if err := c.commit(l.ctx, perFile); err != nil {
					return err
				}
				l.took(time.Since(began))
			}
			return nil
		})
	}
	return l
}

func (l *load) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latencies = append(l.latencies, d)
}

// stop waits for the commits in flight, which count.
func (l *load) stop() (sample, error) {
	l.stopped.Store(true)
	err := l.group.Wait()
	slices.Sort(l.latencies)
	return sample{time.Since(l.began), l.latencies}, err
}

// measure lets clients commit for d.
func (c *committer) measure(ctx context.Context, clients int, d time.Duration) (sample, error) {
	l := c.start(ctx, clients)
	select {
	case <-time.After(d):
	case <-l.ctx.Done():
	}
	return l.stop()
}

// sample is the sorted latencies of commits.
type sample struct {
	took      time.Duration
	latencies []time.Duration
}

// quantile is the latency that a share q of the commits did not exceed.
func (s sample) quantile(q float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(s.latencies))))
	return s.latencies[max(rank, 1)-1]
}

func (s sample) String() string {
	return fmt.Sprintf("%.0f files/s, p50 %s, p99 %s, max %s", float64(len(s.latencies))/s.took.Seconds(), report.Short(s.quantile(0.5)), report.Short(s.quantile(0.99)), report.Short(s.quantile(1)))
}
