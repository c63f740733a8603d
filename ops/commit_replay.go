package ops

import (
	"bytes"
	"crypto/sha256"

	"github.com/cpnode/cpnode/store"
	"github.com/vmihailenco/msgpack/v5"
)

const digestSize = 16

// tookDigest takes the bytes of the request in an entry that is being decoded;
// none while one is encoded.
func (c *commitFile) tookDigest(request []byte) {
	if len(request) == 0 {
		return
	}
	sum := sha256.Sum256(request)
	c.digest = (*[digestSize]byte)(sum[:])
}

// requestDigest tells the identical request from another one with the same
// object key: it is a hash of the request as it is logged.
func (c *commitFile) requestDigest() ([digestSize]byte, error) {
	if c.digest == nil {
		var buf bytes.Buffer
		enc := msgpack.GetEncoder()
		defer msgpack.PutEncoder(enc)
		enc.Reset(&buf)
		enc.UseCompactInts(true)
		f := codec{enc: enc}
		if c.request.fields(&f); f.err != nil {
			return [digestSize]byte{}, f.err
		}
		c.tookDigest(buf.Bytes())
	}
	return *c.digest, nil
}

// settled is the result of a commit whose object key is known or fenced, nil
// when the commit is still to be made.
func (c *commitFile) settled(tx *store.ReadTx, nowMs int64) (any, error) {
	f, exists, err := tx.FileByKey(c.request.ObjectKey)
	if err != nil {
		return nil, err
	}
	if exists {
		return c.replay(tx, &f, nowMs)
	}
	until, fenced, err := tx.Fence(c.request.ObjectKey)
	if err != nil {
		return nil, err
	}
	if fenced && nowMs < until {
		return Errorf(ObjectKeyFenced, "object_key: %q was declared safe to delete or was forgotten; upload under a new key", c.request.ObjectKey), nil
	}
	return nil, nil
}

// replay answers the identical commit as before; anything else under the same
// key is a conflict.
func (c *commitFile) replay(tx *store.ReadTx, f *store.File, nowMs int64) (any, error) {
	p, kept, err := tx.Replay(f.ID)
	if err != nil {
		return nil, err
	}
	digest, err := c.requestDigest()
	if err != nil {
		return nil, err
	}
	if !kept || nowMs-f.CommittedAt > c.replayRetentionMs || p.Digest != digest {
		return Errorf(ObjectKeyConflict, "object_key: %q was committed before, with other content or too long ago", c.request.ObjectKey), nil
	}
	return c.restore(&p), nil
}

// restore computes the answer to the identical commit from what was kept of it.
func (c *commitFile) restore(kept *store.Replay) *CommitFileResponse {
	answer := &CommitFileResponse{Batches: make([]CommittedBatch, len(c.request.Batches)), Replayed: true}
	parts := make(map[store.LogKey]*store.ReplayPartition, len(kept.Partitions))
	duplicates := kept.Duplicates
	for i := range c.request.Batches {
		b, a := &c.request.Batches[i], &answer.Batches[i]
		outcome := outcomeAccepted
		if len(kept.Outcomes) > 0 {
			outcome = kept.Outcomes[i]
		}
		*a = failedBatch(b, outcomeErrors[outcome])
		if outcome == outcomeUnknownPartition {
			continue
		}
		key := store.LogKey{Topic: b.TopicID, Partition: b.Partition}
		part := parts[key]
		if part == nil {
			part = &kept.Partitions[len(parts)]
			parts[key] = part
		}
		switch outcome {
		case outcomeAccepted:
			a.AssignedBaseOffset, a.LogAppendTime, a.LogStartOffset = part.FirstOffset, kept.ClockMs, part.LogStartOffset
			part.FirstOffset += b.LastOffset - b.BaseOffset + 1
		case outcomeDuplicate:
			d := duplicates[0]
			duplicates = duplicates[1:]
			a.Duplicate, a.AssignedBaseOffset, a.LogAppendTime, a.LogStartOffset = true, d.AssignedOffset, d.TimestampMs, part.LogStartOffset
		}
	}
	return answer
}
