package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// produce writes a batch where the partition's records are written now. A batch that is sent
// again is not written again: its producer numbers its records.
func (b *broker) produce(ctx context.Context, r produceRequest) (a produceAnswer, err error) {
	reg, ok := b.known.registration(r.Ref)
	switch {
	case !ok:
		return a, switchover.ErrUnknownPartition
	case reg.Sealed(), reg.State == ops.StateBornDiskless:
		a.Diskless = true
		a.Offset, err = b.wal.append(ctx, r.Ref, &r.Set)
	default:
		a.Offset, err = b.appendClassic(ctx, r.Ref, &r.Set)
	}
	return a, err
}

// appendClassic writes a batch to the local log of the leader, and waits until it is committed.
func (b *broker) appendClassic(ctx context.Context, ref ops.LogRef, set *recordSet) (base int64, err error) {
	payload, err := set.encode()
	if err != nil {
		return 0, err
	}
	base, err = b.producers.append(ref, set, func() (int64, error) {
		return b.gate.Append(ref, int32(len(set.Records)), payload)
	})
	if err != nil {
		return 0, err
	}
	return base, b.committed(ctx, ref, base, payload)
}

// errNotCommitted: the outcome of a write is not known. The producer sends it again.
var errNotCommitted = errors.New("not committed in time")

// committed waits until a consumer would be given the batch.
func (b *broker) committed(ctx context.Context, ref ops.LogRef, base int64, payload []byte) error {
	result, err := b.gate.Read(ctx, switchover.ReadRequest{
		Ref: ref, Offset: base, MaxBytes: 1, MinBytes: 1, MaxWait: callTimeout / 2, Replica: switchover.Consumer,
	})
	switch {
	case err != nil:
		return err
	case len(result.Batches) == 0 || !bytes.Equal(result.Batches[0].Payload, payload):
		return fmt.Errorf("batch at offset %d: %w", base, errNotCommitted)
	}
	return nil
}
