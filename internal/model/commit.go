package model

import (
	"encoding/json"
	"math"
	"reflect"
)

type commitRequest struct {
	ObjectKey string        `json:"object_key"`
	Format    int64         `json:"format"`
	Uploader  int32         `json:"uploader_broker_id"`
	FileSize  int64         `json:"file_size"`
	Batches   []commitBatch `json:"batches"`
}

// UnmarshalJSON fills in the defaults.
func (r *commitRequest) UnmarshalJSON(text []byte) error {
	type plain commitRequest
	p := plain{Format: 1}
	err := json.Unmarshal(text, &p)
	*r = commitRequest(p)
	return err
}

type commitBatch struct {
	target
	Magic         int8  `json:"magic"`
	ByteOffset    int64 `json:"byte_offset"`
	ByteSize      int64 `json:"byte_size"`
	BaseOffset    int64 `json:"base_offset"`
	LastOffset    int64 `json:"last_offset"`
	TimestampType int8  `json:"timestamp_type"`
	MaxTime       int64 `json:"batch_max_timestamp"`
	ProducerID    int64 `json:"producer_id"`
	ProducerEpoch int16 `json:"producer_epoch"`
	BaseSequence  int32 `json:"base_sequence"`
	LastSequence  int32 `json:"last_sequence"`
}

// UnmarshalJSON fills in the defaults.
func (b *commitBatch) UnmarshalJSON(text []byte) error {
	type plain commitBatch
	p := plain{Magic: 2, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}
	err := json.Unmarshal(text, &p)
	*b = commitBatch(p)
	return err
}

type commitAnswer struct {
	Batches  []commitBatchAnswer `json:"batches"`
	Replayed bool                `json:"replayed"`
}

type commitBatchAnswer struct {
	target
	Error        string `json:"error"`
	AssignedBase int64  `json:"assigned_base_offset"`
	AppendTime   int64  `json:"log_append_time"`
	LogStart     int64  `json:"log_start_offset"`
	Duplicate    bool   `json:"duplicate"`
}

func (m *Model) commitFile(r commitRequest) (any, string) {
	if !m.wellFormed(r) {
		return nil, invalidRequest
	}
	if len(r.Batches) == 0 {
		return commitAnswer{Batches: []commitBatchAnswer{}}, ""
	}
	if f := m.file(r.ObjectKey); f != nil {
		return m.replay(f, r)
	}
	if m.fenced(r.ObjectKey) {
		return nil, keyFenced
	}
	return m.commitNew(r), ""
}

func (m *Model) wellFormed(r commitRequest) bool {
	for _, b := range r.Batches {
		distance := uint64(b.LastOffset) - uint64(b.BaseOffset) // right also where it passes int64
		if b.ByteSize <= 0 || b.LastOffset < b.BaseOffset || distance > math.MaxInt64 {
			return false
		}
	}
	return m.legalKey(r.ObjectKey)
}

func (m *Model) legalKey(key string) bool { return key != "" && len(key) <= m.cfg.MaxObjectKeyBytes }

func (m *Model) replay(f *file, r commitRequest) (any, string) {
	known := f.replay != nil && m.now-f.committedAt <= m.cfg.ReplayRetentionMs
	if !known || !reflect.DeepEqual(f.replay.request, r) {
		return nil, keyConflict
	}
	answer := f.replay.answer
	answer.Replayed = true
	return answer, ""
}

func (m *Model) commitNew(r commitRequest) commitAnswer {
	m.changed = true
	m.nextFileID++
	f := &file{
		id: m.nextFileID, key: r.ObjectKey, format: r.Format, uploader: r.Uploader, size: r.FileSize,
		committedAt: m.now, markedAt: live,
	}
	m.files = append(m.files, f)
	var answer commitAnswer
	var previous *commitBatch // the last accepted one
	for i := range r.Batches {
		b := &r.Batches[i]
		item := m.commitBatch(b)
		answer.Batches = append(answer.Batches, item)
		if item.Error == noError && !item.Duplicate {
			m.writeBatch(f.id, item.AssignedBase, previous, b)
			previous = b
		}
	}
	f.replay = &replay{r, answer}
	m.markFiles()
	return answer
}

// commitBatch decides on one batch and gives it its offsets.
func (m *Model) commitBatch(b *commitBatch) commitBatchAnswer {
	refused := commitBatchAnswer{target: b.target, AssignedBase: none, AppendTime: none, LogStart: none}
	l := m.log(b.target)
	if l == nil {
		refused.Error = unknownPartition
		return refused
	}
	accepted := commitBatchAnswer{
		target: b.target, Error: noError, AssignedBase: l.highWatermark, AppendTime: m.now, LogStart: l.start,
	}
	if b.idempotent() {
		refused.Error = l.checkSequence(b, &accepted)
		if refused.Error != noError {
			return refused
		}
		if accepted.Duplicate {
			return accepted
		}
	}
	if !l.holds(b) {
		refused.Error = invalidRequest
		return refused
	}
	if b.idempotent() {
		l.remember(b, m.now)
	}
	l.highWatermark += b.LastOffset - b.BaseOffset + 1
	return accepted
}

func (b *commitBatch) idempotent() bool { return b.ProducerID >= 0 && b.ProducerEpoch >= 0 }

// holds says whether offsets and bytes stay within int64 with one more batch.
func (l *log) holds(b *commitBatch) bool {
	end := uint64(l.highWatermark) + uint64(b.LastOffset-b.BaseOffset) + 1
	return end <= math.MaxInt64 && uint64(l.byteSize())+uint64(b.ByteSize) <= math.MaxInt64
}

// checkSequence holds a batch against its producer's history; for a duplicate it turns the answer into that of the original.
func (l *log) checkSequence(b *commitBatch, answer *commitBatchAnswer) string {
	p := l.producers[b.ProducerID]
	if p != nil && b.ProducerEpoch < p.epoch {
		return invalidEpoch
	}
	if p == nil || b.ProducerEpoch > p.epoch {
		return orderError(b.BaseSequence == 0)
	}
	for _, e := range p.entries {
		if e.base == b.BaseSequence && e.last == b.LastSequence {
			answer.AssignedBase, answer.AppendTime, answer.Duplicate = e.assigned, e.maxTimeSet, true
			return noError
		}
	}
	return orderError(b.BaseSequence == sequenceAfter(p.entries[len(p.entries)-1].last))
}

func orderError(inOrder bool) string {
	if inOrder {
		return noError
	}
	return outOfOrder
}

func sequenceAfter(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}

// remember adds an accepted batch, whose offset is the high watermark still, to its producer's history.
func (l *log) remember(b *commitBatch, now int64) {
	l.addSequence(b.ProducerID, b.ProducerEpoch, sequence{b.BaseSequence, b.LastSequence, l.highWatermark, b.MaxTime}, now)
}

// addSequence leaves out an entry of an epoch that is over, which only init-diskless-log can bring.
func (l *log) addSequence(id int64, epoch int16, s sequence, now int64) {
	p := l.producers[id]
	if p != nil && epoch < p.epoch {
		return
	}
	if p == nil || epoch > p.epoch {
		p = &producer{epoch: epoch}
		l.producers[id] = p
	}
	p.entries = append(p.entries, s)
	p.entries = p.entries[max(0, len(p.entries)-maxSequences):]
	p.updatedAt = now
}

// writeBatch adds the row of an accepted batch, or lets the row of the batch accepted before it grow.
func (m *Model) writeBatch(fileID, base int64, previous, b *commitBatch) {
	l := m.log(b.target)
	last := base + b.LastOffset - b.BaseOffset
	if m.cfg.Coalesce && previous != nil && previous.touches(b) {
		row := &l.batches[len(l.batches)-1]
		row.byteSize += b.ByteSize
		row.lastOffset = last
		row.maxTime = max(row.maxTime, b.MaxTime)
		return
	}
	m.nextBatchID++
	l.batches = append(l.batches, batch{
		id: m.nextBatchID, fileID: fileID, byteOffset: b.ByteOffset, byteSize: b.ByteSize,
		baseOffset: base, lastOffset: last, magic: b.Magic, timestampType: b.TimestampType,
		appendTimestamp: m.now, maxTime: b.MaxTime,
	})
}

func (b *commitBatch) touches(next *commitBatch) bool {
	return b.target == next.target && b.Magic == next.Magic && b.TimestampType == next.TimestampType &&
		b.ByteOffset+b.ByteSize == next.ByteOffset
}
