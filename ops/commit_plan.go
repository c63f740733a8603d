package ops

import (
	"math"
	"sync"

	"github.com/cpnode/cpnode/store"
)

// commitPlan decides a commit batch by batch: each is decided on what the ones
// before it left. Nothing is written before all are decided.
type commitPlan struct {
	cmd   *commitFile
	nowMs int64

	parts      []commitPart // in order of first appearance
	partOf     map[store.LogKey]int
	producers  []commitProducer
	producerOf map[producerRef]int
	rows       []commitRow
	kept       store.Replay
}

// commitPart is one distinct partition of the commit.
type commitPart struct {
	key    store.LogKey
	log    store.Log
	exists bool
	first  int64 // high watermark before the commit
	next   int64 // offset to assign
	bytes  int64
}

type commitProducer struct {
	ref   producerRef
	state store.Producer
	known bool // has a state, old or new
	dirty bool
}

// commitRow is one batch row to write: a batch, or several that touch.
type commitRow struct {
	part    int // index in the plan's parts
	batch   store.Batch
	offsets int64
}

// commitPlans keeps the memory of plans: commits are what a node does most.
var commitPlans = sync.Pool{New: func() any {
	return &commitPlan{partOf: map[store.LogKey]int{}, producerOf: map[producerRef]int{}}
}}

func newCommitPlan(cmd *commitFile, nowMs int64) *commitPlan {
	p := commitPlans.Get().(*commitPlan)
	p.cmd, p.nowMs = cmd, nowMs
	return p
}

func (p *commitPlan) release() {
	clear(p.partOf)
	clear(p.producerOf)
	p.cmd, p.parts, p.producers, p.rows = nil, p.parts[:0], p.producers[:0], p.rows[:0]
	p.kept = store.Replay{Partitions: p.kept.Partitions[:0], Outcomes: p.kept.Outcomes[:0], Duplicates: p.kept.Duplicates[:0]}
	commitPlans.Put(p)
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
	at, err := p.part(tx, store.LogKey{Topic: b.TopicID, Partition: b.Partition})
	if err != nil {
		return err
	}
	part, outcome, duplicate := &p.parts[at], outcomeUnknownPartition, (*store.ProducerEntry)(nil)
	if part.exists {
		if outcome, duplicate, err = p.judge(tx, part, b); err != nil {
			return err
		}
	}
	*answer = failedBatch(b, outcomeErrors[outcome])
	switch outcome {
	case outcomeAccepted:
		p.accept(at, b, answer)
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

// keepOutcome records outcomes only once one is not plain acceptance.
func (p *commitPlan) keepOutcome(i int, outcome byte) {
	kept := p.kept.Outcomes
	if len(kept) == 0 {
		if outcome == outcomeAccepted {
			return
		}
		kept = append(kept, make([]byte, i)...) // all accepted
	}
	p.kept.Outcomes = append(kept, outcome)
}

// part is the index of a partition in the plan.
func (p *commitPlan) part(tx *store.WriteTx, key store.LogKey) (int, error) {
	if at, ok := p.partOf[key]; ok {
		return at, nil
	}
	l, ok, err := tx.LiveLog(key)
	if err != nil {
		return 0, err
	}
	p.partOf[key] = len(p.parts)
	p.parts = append(p.parts, commitPart{key: key, log: l, exists: ok, first: l.HighWatermark, next: l.HighWatermark, bytes: l.ByteSize})
	return len(p.parts) - 1, nil
}

// judge decides one batch on the state of its producer and, when accepted,
// remembers it there. The rules are Kafka's (ProducerAppendInfo), but a producer
// without state must begin at 0: without a partition leader a later batch can
// arrive first, and accepting it would refuse the earlier one for ever.
func (p *commitPlan) judge(tx *store.WriteTx, part *commitPart, b *CommitBatch) (byte, *store.ProducerEntry, error) {
	if b.ProducerID < 0 || b.ProducerEpoch < 0 {
		return part.room(b), nil, nil
	}
	pr, err := p.producer(tx, producerRef{part.log.ID, b.ProducerID})
	if err != nil {
		return 0, nil, err
	}
	s := &pr.state
	fresh := !pr.known || b.ProducerEpoch > s.Epoch
	switch {
	case pr.known && b.ProducerEpoch < s.Epoch:
		return outcomeInvalidEpoch, nil, nil
	case fresh:
		if b.BaseSequence != 0 {
			return outcomeOutOfOrder, nil, nil
		}
	default:
		if e := remembered(s, b); e != nil {
			return outcomeDuplicate, e, nil
		}
		if s.Count > 0 && b.BaseSequence != nextSequence(s.Entries[s.Count-1].LastSequence) {
			return outcomeOutOfOrder, nil, nil
		}
	}
	if outcome := part.room(b); outcome != outcomeAccepted {
		return outcome, nil, nil
	}
	if fresh {
		*s = store.Producer{Epoch: b.ProducerEpoch}
	}
	s.Remember(store.ProducerEntry{BaseSequence: b.BaseSequence, LastSequence: b.LastSequence, AssignedOffset: part.next, BatchMaxTimestamp: b.BatchMaxTimestamp})
	s.UpdatedAt = p.nowMs
	pr.known, pr.dirty = true, true
	return outcomeAccepted, nil, nil
}

// room accepts a batch unless the partition's offsets or bytes would pass int64.
func (part *commitPart) room(b *CommitBatch) byte {
	if part.next > math.MaxInt64-1-(b.LastOffset-b.BaseOffset) || part.bytes > math.MaxInt64-b.ByteSize {
		return outcomeInvalid
	}
	return outcomeAccepted
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

// producer is a producer in the plan, until the next call.
func (p *commitPlan) producer(tx *store.WriteTx, ref producerRef) (*commitProducer, error) {
	if at, ok := p.producerOf[ref]; ok {
		return &p.producers[at], nil
	}
	s, ok, err := tx.Producer(ref.logID, ref.producerID)
	if err != nil {
		return nil, err
	}
	p.producerOf[ref] = len(p.producers)
	p.producers = append(p.producers, commitProducer{ref: ref, state: s, known: ok})
	return &p.producers[len(p.producers)-1], nil
}

// accept gives the batch its offsets and plans its row.
func (p *commitPlan) accept(at int, b *CommitBatch, answer *CommittedBatch) {
	part := &p.parts[at]
	answer.AssignedBaseOffset = part.next
	answer.LogAppendTime = p.nowMs
	answer.LogStartOffset = part.log.LogStartOffset
	offsets := b.LastOffset - b.BaseOffset + 1
	part.next += offsets
	part.bytes += b.ByteSize
	if p.coalesces(at, b) {
		row := &p.rows[len(p.rows)-1]
		row.offsets += offsets
		row.batch.ByteSize += b.ByteSize
		row.batch.BatchMaxTimestamp = max(row.batch.BatchMaxTimestamp, b.BatchMaxTimestamp)
		return
	}
	p.rows = append(p.rows, commitRow{part: at, offsets: offsets, batch: store.Batch{
		ByteOffset: b.ByteOffset, ByteSize: b.ByteSize, Magic: b.Magic, TimestampType: b.TimestampType,
		LogAppendTimestamp: p.nowMs, BatchMaxTimestamp: b.BatchMaxTimestamp,
	}})
}

// coalesces says whether b continues the latest row, byte for byte.
func (p *commitPlan) coalesces(part int, b *CommitBatch) bool {
	if !p.cmd.coalesce || len(p.rows) == 0 {
		return false
	}
	row := &p.rows[len(p.rows)-1]
	return row.part == part && row.batch.Magic == b.Magic && row.batch.TimestampType == b.TimestampType &&
		b.ByteOffset > row.batch.ByteOffset && b.ByteOffset-row.batch.ByteOffset == row.batch.ByteSize // their sum may not fit
}

// write carries the plan out.
func (p *commitPlan) write(tx *store.WriteTx) error {
	id := tx.NextFileID()
	for i := range p.rows {
		row := &p.rows[i]
		row.batch.FileID = id
		if err := tx.AppendBatch(&p.parts[row.part].log, row.batch, row.offsets); err != nil {
			return err
		}
	}
	if err := p.writeParts(tx); err != nil {
		return err
	}
	digest, err := p.cmd.requestDigest()
	if err != nil {
		return err
	}
	p.kept.Digest, p.kept.ClockMs = digest, p.nowMs
	req := &p.cmd.request
	return tx.CreateFile(store.File{
		ID: id, ObjectKey: req.ObjectKey, Format: req.Format, Reason: store.FileReasonProduce,
		UploaderBrokerID: req.UploaderBrokerID, CommittedAt: p.nowMs, Size: req.FileSize, BatchCount: int64(len(p.rows)),
	}, p.kept)
}

// writeParts writes the logs and producers that changed and keeps, of every
// existing log, where it was.
func (p *commitPlan) writeParts(tx *store.WriteTx) error {
	for i := range p.parts {
		part := &p.parts[i]
		if !part.exists {
			continue
		}
		p.kept.Partitions = append(p.kept.Partitions, store.ReplayPartition{FirstOffset: part.first, LogStartOffset: part.log.LogStartOffset})
		if part.next == part.first {
			continue
		}
		if err := tx.PutLog(part.key, part.log); err != nil {
			return err
		}
	}
	for i := range p.producers {
		pr := &p.producers[i]
		if !pr.dirty {
			continue
		}
		if err := tx.PutProducer(pr.ref.logID, pr.ref.producerID, pr.state); err != nil {
			return err
		}
	}
	return nil
}
