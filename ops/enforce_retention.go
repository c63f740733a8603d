package ops

import "github.com/cpnode/cpnode/store"

// EnforceRetentionRequest removes batches that are too old or too much.
type EnforceRetentionRequest struct {
	Requests             []EnforceRetention `json:"requests"`
	MaxBatchesPerRequest int64              `json:"max_batches_per_request" min:"0" doc:"Cap for each partition; 0 = all."`
}

// EnforceRetention asks for one partition.
type EnforceRetention struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition" min:"0"`
	RetentionBytes int64         `json:"retention_bytes" doc:"Negative = not by size."`
	RetentionMs    int64         `json:"retention_ms" doc:"Negative = not by time."`
}

// EnforceRetentionResponse answers each partition in the order of the request.
type EnforceRetentionResponse struct {
	Responses []EnforcedRetention `json:"responses"`
}

// EnforcedRetention is the answer for one partition; its numbers are -1 when it failed.
type EnforcedRetention struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition"`
	Error          Code          `json:"error"`
	BatchesDeleted int64         `json:"batches_deleted"`
	BytesDeleted   int64         `json:"bytes_deleted"`
	LogStartOffset int64         `json:"log_start_offset"`
}

// Validate bounds the request.
func (r *EnforceRetentionRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Begin logs entries of one partition and s.RetentionRows batches.
func (r *EnforceRetentionRequest) Begin(s Settings) Steps {
	began := &cutOff{}
	return &inTurn[EnforceRetention, EnforcedRetention]{
		items: r.Requests,
		begin: func(e *EnforceRetention) Steps {
			return &retentionSteps{
				command: retainLog{log: store.LogKey{Topic: e.TopicID, Partition: e.Partition}, bytes: e.RetentionBytes, ms: e.RetentionMs},
				began:   began, rows: s.RetentionRows, left: budget(r.MaxBatchesPerRequest),
				answer: EnforcedRetention{TopicID: e.TopicID, Partition: e.Partition, Error: None},
			}
		},
		respond: func(answers []EnforcedRetention) any { return &EnforceRetentionResponse{Responses: answers} },
	}
}

// retentionSteps enforces the retention of one partition.
type retentionSteps struct {
	command retainLog
	began   *cutOff
	rows    int64
	left    int64 // of the client's cap
	answer  EnforcedRetention
}

// Next answers from the log's row alone when the oldest batch stays.
func (s *retentionSteps) Next(tx *store.ReadTx, nowMs int64) (Command, error) {
	s.command.asOfMs = s.began.asOf(nowMs)
	l, ok, err := tx.LiveLog(s.command.log)
	if err != nil {
		return nil, err
	}
	if ok && s.command.expired(&l) {
		return s.Again(), nil
	}
	s.add(trimmed{exists: ok, logStart: l.LogStartOffset})
	return nil, nil
}

// Again needs no look: the last part said that batches are left.
func (s *retentionSteps) Again() Command {
	cmd := s.command
	cmd.maxBatches = min(s.rows, s.left)
	return &cmd
}

// Took goes on while batches should go and the client's cap allows.
func (s *retentionSteps) Took(result any) bool {
	t := result.(trimmed)
	s.add(t)
	s.left -= t.batches
	return !t.more || s.left <= 0
}

func (s *retentionSteps) add(t trimmed) {
	a := &s.answer
	if !t.exists {
		*a = EnforcedRetention{a.TopicID, a.Partition, UnknownTopicOrPartition, -1, -1, -1}
		return
	}
	a.LogStartOffset = t.logStart
	a.BatchesDeleted += t.batches
	a.BytesDeleted += t.bytes
}

func (s *retentionSteps) Answer() any { return s.answer }

// retainLog is the logged command.
type retainLog struct {
	log        store.LogKey
	bytes      int64
	ms         int64
	asOfMs     int64 // the "now" that ms is counted back from
	maxBatches int64
}

func (*retainLog) Op() string { return "enforce-retention" }

func (c *retainLog) fields(f *codec) {
	f.object(6, func(f *codec) {
		f.log(&c.log)
		f.int64(&c.bytes)
		f.int64(&c.ms)
		f.int64(&c.asOfMs)
		f.int64(&c.maxBatches)
	})
}

// Apply removes at most maxBatches batches; the log then starts at the first
// that is left.
func (c *retainLog) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	l, ok, err := tx.LiveLog(c.log)
	if err != nil || !ok {
		return trimmed{}, err
	}
	retained := l.ByteSize
	t, err := tx.TrimBatches(&l, nowMs, c.maxBatches, func(b *store.Batch) bool {
		gone := c.drops(retained, b.Timestamp())
		retained -= b.ByteSize
		return gone
	})
	if err != nil || t.Batches == 0 {
		return trimmed{exists: true, logStart: l.LogStartOffset}, err
	}
	first, err := firstOffset(&tx.ReadTx, &l)
	if err != nil {
		return nil, err
	}
	l.LogStartOffset = max(l.LogStartOffset, first)
	return trimmed{exists: true, logStart: l.LogStartOffset, batches: t.Batches, bytes: t.Bytes, more: c.expired(&l)}, tx.PutLog(c.log, l)
}

// expired says whether the oldest batch of the log goes.
func (c *retainLog) expired(l *store.Log) bool {
	return l.Batches() > 0 && c.drops(l.ByteSize, l.EarliestBatchTimestamp)
}

// drops says whether a batch goes: retained is the size from it on.
func (c *retainLog) drops(retained, timestamp int64) bool {
	return c.bytes >= 0 && retained > c.bytes || c.ms >= 0 && timestamp < c.asOfMs-c.ms
}
