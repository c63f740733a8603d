package model

import (
	"maps"
	"slices"
)

type find struct {
	target
	StartingOffset int64     `json:"starting_offset"`
	MaxBytes       fetchSize `json:"max_partition_fetch_bytes"`
}

type findRequest struct {
	Requests   []find    `json:"requests"`
	MaxBytes   fetchSize `json:"fetch_max_bytes"`
	MaxBatches natural   `json:"max_batches_per_partition"`
}

type findAnswer struct {
	target
	Error         string       `json:"error"`
	LogStart      int64        `json:"log_start_offset"`
	HighWatermark int64        `json:"high_watermark"`
	Batches       []foundBatch `json:"batches"`
}

type foundBatch struct {
	BatchID   int64  `json:"batch_id"`
	ObjectKey string `json:"object_key"`
	Magic     int8   `json:"magic"`
	target
	TopicName       string `json:"topic_name"`
	ByteOffset      int64  `json:"byte_offset"`
	ByteSize        int64  `json:"byte_size"`
	BaseOffset      int64  `json:"base_offset"`
	LastOffset      int64  `json:"last_offset"`
	AppendTimestamp int64  `json:"log_append_timestamp"`
	MaxTime         int64  `json:"batch_max_timestamp"`
	TimestampType   int8   `json:"timestamp_type"`
}

func (m *Model) findBatches(r findRequest) (any, string) {
	var rows int
	left := int64(r.MaxBytes) // of the whole request; below 0 after the batch that crosses it
	answer := responses[findAnswer]{Responses: []findAnswer{}}
	for _, q := range r.Requests {
		a := m.findStart(q.target, q.StartingOffset)
		own := int64(q.MaxBytes) // of this partition
		for _, b := range m.batchesFrom(q.target, q.StartingOffset, a.Error) {
			withinBytes := own > 0 && left > 0
			if rows > 0 && !withinBytes || capped(len(a.Batches), r.MaxBatches) || rows == m.cfg.MaxAnswerRows {
				break
			}
			a.Batches = append(a.Batches, m.foundBatch(q.target, b))
			rows++
			own -= b.byteSize
			left -= b.byteSize
		}
		answer.Responses = append(answer.Responses, a)
	}
	return answer, ""
}

// findStart answers one partition of a find without its batches.
func (m *Model) findStart(at target, offset int64) findAnswer {
	l := m.log(at)
	if l == nil {
		return findAnswer{at, unknownPartition, none, none, []foundBatch{}}
	}
	a := findAnswer{at, noError, l.start, l.highWatermark, []foundBatch{}}
	if offset < l.start || offset > l.highWatermark {
		a.Error = offsetOutOfRange
	}
	return a
}

func (m *Model) batchesFrom(at target, offset int64, err string) []batch {
	if err != noError {
		return nil
	}
	batches := m.log(at).batches
	first := slices.IndexFunc(batches, func(b batch) bool { return b.lastOffset >= offset })
	if first < 0 {
		return nil
	}
	return batches[first:]
}

func (m *Model) foundBatch(at target, b batch) foundBatch {
	return foundBatch{
		BatchID: b.id, ObjectKey: m.fileByID(b.fileID).key, Magic: b.magic,
		target: at, TopicName: m.topics[at.TopicID].name,
		ByteOffset: b.byteOffset, ByteSize: b.byteSize, BaseOffset: b.baseOffset, LastOffset: b.lastOffset,
		AppendTimestamp: b.appendTimestamp, MaxTime: b.maxTime, TimestampType: b.timestampType,
	}
}

type listOffset struct {
	target
	Timestamp int64 `json:"timestamp"`
}

type listOffsetsRequest struct {
	Requests []listOffset `json:"requests"`
}

type listOffsetAnswer struct {
	target
	Error     string `json:"error"`
	Timestamp int64  `json:"timestamp"`
	Offset    int64  `json:"offset"`
}

func (m *Model) listOffsets(r listOffsetsRequest) (any, string) {
	return each(r.Requests, func(q listOffset) listOffsetAnswer {
		l := m.log(q.target)
		if l == nil {
			return listOffsetAnswer{q.target, unknownPartition, none, none}
		}
		if q.Timestamp < -5 {
			return listOffsetAnswer{q.target, unsupportedVersion, none, none}
		}
		timestamp, offset := l.offsetFor(q.Timestamp)
		return listOffsetAnswer{q.target, noError, timestamp, offset}
	}), ""
}

func (l *log) offsetFor(wanted int64) (timestamp, offset int64) {
	switch wanted {
	case -1:
		return none, l.highWatermark
	case -2:
		if l.remoteStart != none {
			return none, l.remoteStart
		}
		return none, l.start
	case -3:
		return l.newest()
	case -4:
		return none, l.start
	case -5:
		return none, none
	}
	for _, b := range l.batches {
		if b.timestamp() >= wanted {
			return b.timestamp(), max(b.baseOffset, l.start)
		}
	}
	return none, none
}

func (l *log) newest() (timestamp, offset int64) {
	timestamp, offset = none, none
	for i, b := range l.batches {
		if i == 0 || b.timestamp() > timestamp {
			timestamp, offset = b.timestamp(), b.lastOffset
		}
	}
	return timestamp, offset
}

type logInfo struct {
	target
	Error         string `json:"error"`
	LogStart      int64  `json:"log_start_offset"`
	HighWatermark int64  `json:"high_watermark"`
	DisklessStart int64  `json:"diskless_start_offset"`
	ByteSize      int64  `json:"byte_size"`
	RemoteStart   int64  `json:"remote_log_start_offset"`
}

func (m *Model) getLogInfo(r targets) (any, string) {
	return each(r.Requests, m.logInfo), ""
}

func (m *Model) logInfo(at target) logInfo {
	l := m.log(at)
	if l == nil {
		return logInfo{at, unknownPartition, none, none, none, none, none}
	}
	return logInfo{at, noError, l.start, l.highWatermark, l.disklessStart, l.byteSize(), l.remoteStart}
}

type producerAnswer struct {
	target
	Error   string          `json:"error"`
	Entries []producerEntry `json:"entries"`
}

// producerEntry is one remembered batch of a producer, in answers and in init-diskless-log.
type producerEntry struct {
	ProducerID   int64 `json:"producer_id"`
	Epoch        int16 `json:"producer_epoch"`
	BaseSequence int32 `json:"base_sequence"`
	LastSequence int32 `json:"last_sequence"`
	Assigned     int64 `json:"assigned_offset"`
	MaxTime      int64 `json:"batch_max_timestamp"`
}

func (m *Model) getProducerState(r targets) (any, string) {
	rows := 0
	return each(r.Requests, func(at target) producerAnswer {
		l := m.log(at)
		if l == nil {
			return producerAnswer{at, unknownPartition, []producerEntry{}}
		}
		entries := l.producerEntries()
		entries = entries[:min(len(entries), m.cfg.MaxAnswerRows-rows)]
		rows += len(entries)
		return producerAnswer{at, noError, entries}
	}), ""
}

func (l *log) producerEntries() []producerEntry {
	entries := []producerEntry{}
	for _, id := range slices.Sorted(maps.Keys(l.producers)) {
		p := l.producers[id]
		for _, e := range p.entries {
			entries = append(entries, producerEntry{id, p.epoch, e.base, e.last, e.assigned, e.maxTimeSet})
		}
	}
	return entries
}

type crossTierAnswer struct {
	target
	Error       string `json:"error"`
	RemoteStart int64  `json:"remote_log_start_offset"`
}

func (m *Model) getCrossTierLogStart(r targets) (any, string) {
	return each(r.Requests, func(at target) crossTierAnswer {
		l := m.log(at)
		if l == nil {
			return crossTierAnswer{at, unknownPartition, none}
		}
		return crossTierAnswer{at, noError, l.remoteStart}
	}), ""
}
