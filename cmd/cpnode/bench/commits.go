package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	recordsPerBatch = 10
	batchBytes      = 16 << 10
	firstTimestamp  = 1_700_000_000_000
)

// files makes the commits of many clients over one topic. Batches of a file are
// in partitions drawn at random, all distinct while there are enough, and never
// touch, so that none are joined.
type files struct {
	topic      topic
	perFile    int
	idempotent bool
	clients    []fileClient
	batches    atomic.Int64 // made so far; their timestamps count on with it
}

type fileClient struct {
	partitions []int32 // shuffled as files are made
	producer   int64
	sequences  []int32 // next, by partition
}

func newFiles(t topic, clients, perFile int, idempotent bool) *files {
	f := &files{topic: t, perFile: perFile, idempotent: idempotent, clients: make([]fileClient, clients)}
	for i := range f.clients {
		c := fileClient{partitions: make([]int32, t.partitions), producer: rand.Int64(), sequences: make([]int32, t.partitions)}
		for p := range c.partitions {
			c.partitions[p] = int32(p)
		}
		f.clients[i] = c
	}
	return f
}

// next is the client's next commit. Clients may call it at the same time, each
// for itself.
func (f *files) next(client int) *ops.CommitFileRequest {
	c := &f.clients[client]
	r := &ops.CommitFileRequest{
		ObjectKey: "wal/" + randomID().String(), Format: 1, UploaderBrokerID: int32(client),
		FileSize: int64(f.perFile) * 2 * batchBytes, Batches: make([]ops.CommitBatch, f.perFile),
	}
	at := firstTimestamp + f.batches.Add(int64(f.perFile))
	for i := range r.Batches {
		p := c.draw(i)
		r.Batches[i] = ops.CommitBatch{
			TopicID: f.topic.id, Partition: p, Magic: 2, ByteOffset: int64(i) * 2 * batchBytes, ByteSize: batchBytes,
			LastOffset: recordsPerBatch - 1, BatchMaxTimestamp: at + int64(i),
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}
		if f.idempotent {
			c.sign(&r.Batches[i])
		}
	}
	return r
}

// draw is the i-th partition of a file.
func (c *fileClient) draw(i int) int32 {
	i %= len(c.partitions)
	j := i + rand.IntN(len(c.partitions)-i)
	c.partitions[i], c.partitions[j] = c.partitions[j], c.partitions[i]
	return c.partitions[i]
}

func (c *fileClient) sign(b *ops.CommitBatch) {
	next := &c.sequences[b.Partition]
	b.ProducerID, b.ProducerEpoch = c.producer, 0
	b.BaseSequence, b.LastSequence = *next, *next+recordsPerBatch-1
	*next += recordsPerBatch
}

// commitCall commits one file.
type commitCall func(context.Context, *ops.CommitFileRequest) (*ops.CommitFileResponse, error)

// commit is a call that commits the client's next file through send.
func (f *files) commit(send commitCall) call {
	return func(ctx context.Context, client int) error {
		answer, err := send(ctx, f.next(client))
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		for i := range answer.Batches {
			if code := answer.Batches[i].Error; code != ops.None {
				return fmt.Errorf("commit: batch %d: %s", i, code)
			}
		}
		return nil
	}
}

func (c *cluster) commitFile(ctx context.Context, r *ops.CommitFileRequest) (*ops.CommitFileResponse, error) {
	return write[ops.CommitFileResponse](ctx, c, r)
}

const loadClients = 128

// load commits count batches in files of perFile.
func (c *cluster) load(ctx context.Context, t topic, count, perFile int) error {
	f := newFiles(t, loadClients, perFile, false)
	commit := f.commit(c.commitFile)
	var left atomic.Int64
	left.Store(int64(count / perFile))
	group, ctx := errgroup.WithContext(ctx)
	for client := range loadClients {
		group.Go(func() (err error) {
			for err == nil && left.Add(-1) >= 0 {
				err = commit(ctx, client)
			}
			return err
		})
	}
	return group.Wait()
}

func randomID() (id store.TopicID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id
}
