package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// pageBatches is how many batches verify reads at a time.
const pageBatches = 5000

// verify reads every log from every node, linearizably and stale, and returns how
// many batches each of these reads found: all that was acknowledged, each at its
// offset and in its object, and nothing else. The writers have finished.
func (l *load) verify(ctx context.Context) (found int, err error) {
	if _, err := l.cluster.settle(ctx); err != nil {
		return 0, err
	}
	for _, n := range l.cluster.nodes {
		for name, options := range map[string][]api.Option{"linearizable": nil, "stale": {api.Stale()}} {
			found, err = l.findAll(ctx, n, options)
			if err == nil && found != len(l.acked) {
				err = fmt.Errorf("%d batches were acknowledged, %d are there", len(l.acked), found)
			}
			if err != nil {
				return found, fmt.Errorf("node %s, %s reads: %w", n.id, name, err)
			}
		}
	}
	return found, nil
}

func (l *load) findAll(ctx context.Context, n *child, options []api.Option) (found int, err error) {
	for _, t := range l.topics {
		for p := range t.partitions {
			count, err := l.findLog(ctx, n, store.LogKey{Topic: t.id, Partition: p}, options)
			if err != nil {
				return found, err
			}
			found += count
		}
	}
	return found, nil
}

// findLog reads one log from its start to its end.
func (l *load) findLog(ctx context.Context, n *child, log store.LogKey, options []api.Option) (found int, err error) {
	for offset := int64(0); ; {
		answer, err := n.client.FindBatches(ctx, &ops.FindBatchesRequest{
			Requests:      []ops.FindBatches{{TopicID: log.Topic, Partition: log.Partition, StartingOffset: offset, MaxPartitionFetchBytes: math.MaxInt32}},
			FetchMaxBytes: math.MaxInt32, MaxBatchesPerPartition: pageBatches,
		}, options...)
		if err != nil {
			return found, err
		}
		page := answer.Responses[0]
		if err := refused(fmt.Sprintf("partition %d", log.Partition), page.Error); err != nil {
			return found, err
		}
		for _, b := range page.Batches {
			if key := l.acked[ackedBatch{log, b.BaseOffset}]; b.BaseOffset != offset || key != b.ObjectKey {
				return found, fmt.Errorf("partition %d: at offset %d there is a batch of %s at %d; acknowledged was %q", log.Partition, offset, b.ObjectKey, b.BaseOffset, key)
			}
			found++
			offset = b.LastOffset + 1
		}
		if offset == page.HighWatermark {
			return found, nil
		}
		if len(page.Batches) == 0 {
			return found, fmt.Errorf("partition %d: nothing at offset %d, below the high watermark %d", log.Partition, offset, page.HighWatermark)
		}
	}
}

// retryFirst sends the first file again: the answer must be the first one's.
func (l *load) retryFirst(ctx context.Context) error {
	again, err := l.cluster.all.CommitFile(ctx, l.first)
	switch {
	case err != nil:
		return err
	case !again.Replayed:
		return errors.New("a file that is sent again was committed twice")
	case !reflect.DeepEqual(again.Batches, l.answer.Batches):
		return fmt.Errorf("a file that is sent again is answered otherwise: %+v, at first %+v", again.Batches, l.answer.Batches)
	}
	return nil
}
