package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// value is what the record at an offset says: there is one producer, which numbers its
// records, and each of them is once in the partition.
func value(offset int64) string { return fmt.Sprintf("record %08d", offset) }

// producer writes to a partition, one batch after the other, and sends each until it is
// acknowledged.
type producer struct {
	cluster *cluster
	ref     ops.LogRef
	at      int          // the broker that it asks first
	next    atomic.Int64 // so many records are acknowledged
}

// send writes records in batches of a size.
func (p *producer) send(ctx context.Context, records, batch int) error {
	for end := p.next.Load() + int64(records); p.next.Load() < end; {
		if err := p.sendBatch(ctx, min(batch, int(end-p.next.Load()))); err != nil {
			return err
		}
	}
	return nil
}

// run writes small batches until ctx ends, or stop is closed. The batch that is under way
// then is sent to its end.
func (p *producer) run(ctx context.Context, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := p.sendBatch(ctx, 5); err != nil {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return nil // somebody else has an error
		}
	}
}

func (p *producer) sendBatch(ctx context.Context, records int) error {
	base := p.next.Load()
	set := recordSet{ProducerID: 1, BaseSequence: int32(base), TimestampMs: time.Now().UnixMilli()}
	for o := base; o < base+int64(records); o++ {
		set.Records = append(set.Records, value(o))
	}
	brokers := p.cluster.layout.Brokers
	for {
		answer, err := call[produceAnswer](ctx, brokers[p.at%len(brokers)].HTTP, verbProduce, produceRequest{p.ref, set})
		switch {
		case err == nil && answer.Offset != base:
			return fmt.Errorf("records %d to %d got the offset %d", base, base+int64(records)-1, answer.Offset)
		case err == nil:
			if answer.Diskless {
				p.at++ // any broker takes the next
			}
			p.next.Add(int64(records))
			return nil
		case !errors.Is(err, errAgain):
			return err
		}
		p.at++
		if pause(ctx, retryPause/5) != nil {
			return fmt.Errorf("producing at offset %d: %w", base, errors.Join(context.Cause(ctx), err))
		}
	}
}
