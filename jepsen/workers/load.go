package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	partitions = 8  // of each topic
	perFile    = 50 // batches
	batchBytes = 100
	records    = 10 // a batch
	clients    = 16 // that load and verify
)

// The topics: one is deleted, the other stays.
var (
	gone = store.TopicID{0x60, 6: 0x40, 8: 0x80, 15: 1}
	kept = store.TopicID{0x60, 6: 0x40, 8: 0x80, 15: 2}
)

// load is what was committed: file by file, a third with batches of the one topic, a
// third with batches of the other, a third with both.
type load struct {
	client  *api.Client
	objects *objects
	files   atomic.Int64 // given a number so far

	mu       sync.Mutex
	expected [partitions]map[int64]place // of the kept topic, by base offset
	keep     map[int]bool                // files that a batch of the kept topic lies in
}

// place is where a batch lies.
type place struct{ file, batch int }

func newLoad(client *api.Client, objects *objects) *load {
	l := &load{client: client, objects: objects, keep: map[int]bool{}}
	for p := range l.expected {
		l.expected[p] = map[int64]place{}
	}
	return l
}

func (l *load) createTopics(ctx context.Context) error {
	r := &ops.CreateTopicsRequest{}
	for name, id := range map[string]store.TopicID{"gone": gone, "kept": kept} {
		r.Topics = append(r.Topics, ops.CreateTopic{TopicID: id, TopicName: name, NumPartitions: partitions, Config: map[string]string{}})
	}
	answer, err := l.client.CreateTopics(ctx, r)
	for i := range r.Topics {
		if err == nil && answer.Topics[i].Error != ops.None {
			err = fmt.Errorf("create topic %s: %s", r.Topics[i].TopicName, answer.Topics[i].Error)
		}
	}
	return err
}

// A topicsOf says whose batches lie in a file.
type topicsOf func(file, batch int) store.TopicID

// mixed is a third of the files for each topic, and a third for both.
func mixed(file, batch int) store.TopicID {
	if file%3 == 0 || file%3 == 1 && batch%2 == 0 {
		return gone
	}
	return kept
}

func onlyKept(int, int) store.TopicID { return kept }

// fill puts and commits so many files, several at a time.
func (l *load) fill(ctx context.Context, files int, of topicsOf) error {
	var left atomic.Int64
	left.Store(int64(files))
	group, ctx := errgroup.WithContext(ctx)
	for range clients {
		group.Go(func() (err error) {
			for err == nil && left.Add(-1) >= 0 {
				_, err = l.file(ctx, of)
			}
			return err
		})
	}
	return group.Wait()
}

// file puts an object and commits it, which took so long.
func (l *load) file(ctx context.Context, of topicsOf) (took time.Duration, err error) {
	file := int(l.files.Add(1)) - 1
	data := object(file)
	if err := l.objects.Put(ctx, key(file), bytes.NewReader(data), int64(len(data))); err != nil {
		return 0, err
	}
	r := &ops.CommitFileRequest{ObjectKey: key(file), Format: 1, FileSize: int64(len(data))}
	for b := range perFile {
		r.Batches = append(r.Batches, ops.CommitBatch{
			TopicID: of(file, b), Partition: int32(b % partitions), Magic: 2, ByteOffset: int64(b) * batchBytes, ByteSize: batchBytes,
			LastOffset: records - 1, BatchMaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		})
	}
	began := time.Now()
	answer, err := l.client.CommitFile(ctx, r)
	if err != nil {
		return 0, err
	}
	return time.Since(began), l.committed(file, answer)
}

// committed notes where the batches of the kept topic are to be found.
func (l *load) committed(file int, answer *ops.CommitFileResponse) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range answer.Batches {
		if b.Error != ops.None {
			return fmt.Errorf("commit: %s", b.Error)
		}
		if b.TopicID == kept {
			l.expected[b.Partition][b.AssignedBaseOffset] = place{file, i}
			l.keep[file] = true
		}
	}
	return nil
}

func key(file int) string { return fmt.Sprintf("wal/%02d/%06d", file%100, file) }

// object is the bytes of a file: each batch has its own.
func object(file int) []byte {
	data := make([]byte, 0, perFile*batchBytes)
	for b := range perFile {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(file)<<32|uint64(b)))
		data = append(data, bytes.Repeat(sum[:], batchBytes/len(sum)+1)[:batchBytes]...)
	}
	return data
}

// verify finds every batch of the kept topic where it was committed, and no other, and
// compares the bytes of all objects that hold one.
func (l *load) verify(ctx context.Context) (batches int, err error) {
	for p := range l.expected {
		if err := l.verifyPartition(ctx, int32(p)); err != nil {
			return 0, fmt.Errorf("partition %d: %w", p, err)
		}
		batches += len(l.expected[p])
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for file := range l.keep {
		group.Go(func() error { return l.verifyObject(ctx, file) })
	}
	return batches, group.Wait()
}

func (l *load) verifyPartition(ctx context.Context, partition int32) error {
	const most, page = 1 << 30, 5000
	next, found := int64(0), 0
	for {
		answer, err := l.client.FindBatches(ctx, &ops.FindBatchesRequest{FetchMaxBytes: most, MaxBatchesPerPartition: page,
			Requests: []ops.FindBatches{{TopicID: kept, Partition: partition, StartingOffset: next, MaxPartitionFetchBytes: most}}})
		if err != nil {
			return err
		}
		a := answer.Responses[0]
		for _, b := range a.Batches {
			at, ok := l.expected[partition][b.BaseOffset]
			if !ok || b.BaseOffset != next || b.ObjectKey != key(at.file) || b.ByteOffset != int64(at.batch)*batchBytes || b.ByteSize != batchBytes {
				return fmt.Errorf("at offset %d there is %+v", next, b)
			}
			next = b.LastOffset + 1
			found++
		}
		if a.Error != ops.None || next == a.HighWatermark || len(a.Batches) == 0 {
			if a.Error != ops.None || next != a.HighWatermark || found != len(l.expected[partition]) {
				return fmt.Errorf("%d of %d batches found up to offset %d of %d: %s", found, len(l.expected[partition]), next, a.HighWatermark, a.Error)
			}
			return nil
		}
	}
}

func (l *load) verifyObject(ctx context.Context, file int) error {
	r, err := l.objects.Get(ctx, key(file))
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(data, object(file)) {
		err = fmt.Errorf("object %s: its bytes are not those that were put", key(file))
	}
	return err
}

// doomed is how many of the objects are there that no batch refers to any more.
func (l *load) doomed(there map[string]bool) int {
	n := len(there)
	for file := range l.keep {
		if there[key(file)] {
			n--
		}
	}
	return n
}

// verifyStore demands that the store holds the objects that are referred to and no
// others.
func (l *load) verifyStore(ctx context.Context) error {
	there, err := l.objects.keys(ctx)
	if err != nil {
		return err
	}
	for file := range l.keep {
		if !there[key(file)] {
			return fmt.Errorf("object %s is gone, and batches refer to it", key(file))
		}
	}
	if n := l.doomed(there); n > 0 {
		return fmt.Errorf("%d objects are left that nobody refers to", n)
	}
	return nil
}
