package ops

import (
	"math"

	"github.com/cpnode/cpnode/store"
)

// commitPlan decides a commit batch by batch: each is decided on what the ones
// before it left. Nothing is written before all are decided.
type commitPlan struct {
	cmd   *commitFile
	nowMs int64

	parts     map[store.LogKey]*commitPart
	order     []*commitPart // that exist, in order of first appearance
	producers []*commitProducer
	rows      []commitRow
	kept      store.Replay
}

// commitPart is one distinct partition of the commit.
type commitPart struct {
	key       store.LogKey
	log       store.Log
	exists    bool
	first     int64 // high watermark before the commit
	next      int64 // offset to assign
	bytes     int64
	producers map[int64]*commitProducer
}

type commitProducer struct {
	logID uint64
	id    int64
	state store.Producer
	known bool // has a state, old or new
	dirty bool
}

// commitRow is one batch row to write: a batch, or several that touch.
type commitRow struct {
	part    *commitPart
	batch   store.Batch
	offsets int64
}

// Outcomes of a batch as kept for a replay. Codes on disk are append-only.
const (
	outcomeAccepted byte = iota
	outcomeDuplicate
	outcomeUnknownPartition
	outcomeInvalidEpoch
	outcomeOutOfOrder
	outcomeInvalid
)

var outcomeErrors = [...]Code{None, None, UnknownTopicOrPartition, InvalidProducerEpoch, OutOfOrderSequence, InvalidRequest}

// decide answers batch i and plans what it writes.
func (p *commitPlan) decide(tx *store.WriteTx, i int, answer *CommittedBatch) error {
	b := &p.cmd.request.Batches[i]
	part, err := p.part(tx, store.LogKey{Topic: b.TopicID, Partition: b.Partition})
	if err != nil {
		return err
	}
	outcome, duplicate := outcomeUnknownPartition, (*store.ProducerEntry)(nil)
	if part.exists {
		if outcome, duplicate, err = p.judge(tx, part, b); err != nil {
			return err
		}
	}
	*answer = failedBatch(b, outcomeErrors[outcome])
	switch outcome {
	case outcomeAccepted:
		p.accept(part, b, answer)
	case outcomeDuplicate:
		answer.Duplicate = true
		answer.AssignedBaseOffset = duplicate.AssignedOffset
		answer.LogAppendTime = duplicate.BatchMaxTimestamp
		answer.LogStartOffset = part.log.LogStartOffset
		p.kept.Duplicates = append(p.kept.Duplicates, store.ReplayDuplicate{
			Batch: int64(i), AssignedOffset: duplicate.AssignedOffset, TimestampMs: duplicate.BatchMaxTimestamp})
	}
	p.keepOutcome(i, outcome)
	return nil
}

func failedBatch(b *CommitBatch, code Code) CommittedBatch {
	return CommittedBatch{TopicID: b.TopicID, Partition: b.Partition, Error: code, AssignedBaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1}
}

// keepOutcome records outcomes from the first one on that is not plain acceptance.
func (p *commitPlan) keepOutcome(i int, outcome byte) {
	if outcome == outcomeAccepted && p.kept.Outcomes == nil {
		return
	}
	if p.kept.Outcomes == nil {
		p.kept.Outcomes = make([]byte, i, len(p.cmd.request.Batches))
	}
	p.kept.Outcomes = append(p.kept.Outcomes, outcome)
}

func (p *commitPlan) part(tx *store.WriteTx, key store.LogKey) (*commitPart, error) {
	if part := p.parts[key]; part != nil {
		return part, nil
	}
	l, ok, err := tx.LiveLog(key)
	if err != nil {
		return nil, err
	}
	part := &commitPart{key: key, log: l, exists: ok, first: l.HighWatermark, next: l.HighWatermark, bytes: l.ByteSize}
	p.parts[key] = part
	if ok {
		p.order = append(p.order, part)
	}
	return part, nil
}

// judge decides one batch on the state of its producer and, when accepted,
// remembers it there. The rules are Kafka's (ProducerAppendInfo), but a producer
// without state must begin at 0: without a partition leader a later batch can
// arrive first, and accepting it would refuse the earlier one for ever.
func (p *commitPlan) judge(tx *store.WriteTx, part *commitPart, b *CommitBatch) (byte, *store.ProducerEntry, error) {
	if part.next > math.MaxInt64-1-(b.LastOffset-b.BaseOffset) || part.bytes > math.MaxInt64-b.ByteSize {
		return outcomeInvalid, nil, nil
	}
	if b.ProducerID < 0 || b.ProducerEpoch < 0 {
		return outcomeAccepted, nil, nil
	}
	pr, err := p.producer(tx, part, b.ProducerID)
	if err != nil {
		return 0, nil, err
	}
	s := &pr.state
	switch {
	case pr.known && b.ProducerEpoch < s.Epoch:
		return outcomeInvalidEpoch, nil, nil
	case !pr.known || b.ProducerEpoch > s.Epoch:
		if b.BaseSequence != 0 {
			return outcomeOutOfOrder, nil, nil
		}
		*s = store.Producer{Epoch: b.ProducerEpoch}
	default:
		if e := remembered(s, b); e != nil {
			return outcomeDuplicate, e, nil
		}
		if s.Count > 0 && b.BaseSequence != nextSequence(s.Entries[s.Count-1].LastSequence) {
			return outcomeOutOfOrder, nil, nil
		}
	}
	s.Remember(store.ProducerEntry{BaseSequence: b.BaseSequence, LastSequence: b.LastSequence, AssignedOffset: part.next, BatchMaxTimestamp: b.BatchMaxTimestamp})
	s.UpdatedAt = p.nowMs
	pr.known, pr.dirty = true, true
	return outcomeAccepted, nil, nil
}

// nextSequence is the sequence after s; 0 follows 2147483647.
func nextSequence(s int32) int32 {
	if s == math.MaxInt32 {
		return 0
	}
	return s + 1
}

func remembered(s *store.Producer, b *CommitBatch) *store.ProducerEntry {
	for i := range s.Recent() {
		if e := &s.Entries[i]; e.BaseSequence == b.BaseSequence && e.LastSequence == b.LastSequence {
			return e
		}
	}
	return nil
}

func (p *commitPlan) producer(tx *store.WriteTx, part *commitPart, id int64) (*commitProducer, error) {
	if pr := part.producers[id]; pr != nil {
		return pr, nil
	}
	s, ok, err := tx.Producer(part.log.ID, id)
	if err != nil {
		return nil, err
	}
	if part.producers == nil {
		part.producers = make(map[int64]*commitProducer, 4)
	}
	pr := &commitProducer{logID: part.log.ID, id: id, state: s, known: ok}
	part.producers[id] = pr
	p.producers = append(p.producers, pr)
	return pr, nil
}

// accept gives the batch its offsets and plans its row.
func (p *commitPlan) accept(part *commitPart, b *CommitBatch, answer *CommittedBatch) {
	answer.AssignedBaseOffset = part.next
	answer.LogAppendTime = p.nowMs
	answer.LogStartOffset = part.log.LogStartOffset
	offsets := b.LastOffset - b.BaseOffset + 1
	part.next += offsets
	part.bytes += b.ByteSize
	if p.coalesces(part, b) {
		row := &p.rows[len(p.rows)-1]
		row.offsets += offsets
		row.batch.ByteSize += b.ByteSize
		row.batch.BatchMaxTimestamp = max(row.batch.BatchMaxTimestamp, b.BatchMaxTimestamp)
		return
	}
	p.rows = append(p.rows, commitRow{part: part, offsets: offsets, batch: store.Batch{
		ByteOffset: b.ByteOffset, ByteSize: b.ByteSize, Magic: b.Magic, TimestampType: b.TimestampType,
		LogAppendTimestamp: p.nowMs, BatchMaxTimestamp: b.BatchMaxTimestamp,
	}})
}

// coalesces says whether b continues the latest row, byte for byte.
func (p *commitPlan) coalesces(part *commitPart, b *CommitBatch) bool {
	if !p.cmd.coalesce || len(p.rows) == 0 {
		return false
	}
	row := &p.rows[len(p.rows)-1]
	return row.part == part && row.batch.Magic == b.Magic && row.batch.TimestampType == b.TimestampType &&
		row.batch.ByteOffset+row.batch.ByteSize == b.ByteOffset
}

// write carries the plan out.
func (p *commitPlan) write(tx *store.WriteTx) error {
	req := &p.cmd.request
	id := tx.NextFileID()
	for i := range p.rows {
		row := &p.rows[i]
		row.batch.FileID = id
		if err := tx.AppendBatch(&row.part.log, row.batch, row.offsets); err != nil {
			return err
		}
	}
	for _, part := range p.order {
		p.kept.Partitions = append(p.kept.Partitions, store.ReplayPartition{FirstOffset: part.first, LogStartOffset: part.log.LogStartOffset})
		if part.next == part.first {
			continue
		}
		if err := tx.PutLog(part.key, part.log); err != nil {
			return err
		}
	}
	for _, pr := range p.producers {
		if !pr.dirty {
			continue
		}
		if err := tx.PutProducer(pr.logID, pr.id, pr.state); err != nil {
			return err
		}
	}
	digest, err := req.digest()
	if err != nil {
		return err
	}
	p.kept.Digest, p.kept.ClockMs = digest, p.nowMs
	return tx.CreateFile(store.File{
		ID: id, ObjectKey: req.ObjectKey, Format: req.Format, Reason: store.FileReasonProduce,
		UploaderBrokerID: req.UploaderBrokerID, CommittedAt: p.nowMs, Size: req.FileSize, BatchCount: int64(len(p.rows)),
	}, p.kept)
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
