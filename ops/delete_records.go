package ops

import (
	"slices"

	"github.com/cpnode/cpnode/store"
)

// DeleteRecordsRequest moves log starts forward, as clients of Kafka ask.
type DeleteRecordsRequest struct {
	Requests []DeleteRecords `json:"requests"`
}

// DeleteRecords asks for one partition.
type DeleteRecords struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition" min:"0"`
	Offset    int64         `json:"offset" doc:"First offset to keep; -1 = the high watermark."`
}

// DeleteRecordsResponse answers each partition in the order of the request.
type DeleteRecordsResponse struct {
	Responses []DeletedRecords `json:"responses"`
}

// DeletedRecords is the answer for one partition; LogStartOffset is -1 when it failed.
type DeletedRecords struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition"`
	Error          Code          `json:"error"`
	LogStartOffset int64         `json:"log_start_offset"`
}

// Validate bounds the request.
func (r *DeleteRecordsRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Begin logs entries of s.DeleteRecordsRows logs and batches.
func (r *DeleteRecordsRequest) Begin(s Settings) Steps {
	return &deleteRecordsSteps{items: slices.Clone(r.Requests), rows: s.DeleteRecordsRows}
}

// deleteRecordsSteps holds the items that are not answered yet.
type deleteRecordsSteps struct {
	items   []DeleteRecords
	rows    int64
	answers []DeletedRecords
}

func (s *deleteRecordsSteps) Next(tx *store.ReadTx, _ int64) (Command, error) {
	for len(s.items) > 0 {
		d, err := decideDeleteRecords(tx, &s.items[0])
		if err != nil {
			return nil, err
		}
		if d.moves {
			n := min(int64(len(s.items)), s.rows)
			return &deleteRecords{items: s.items[:n], rows: s.rows}, nil
		}
		s.answers, s.items = append(s.answers, d.answer), s.items[1:]
	}
	return nil, nil
}

func (s *deleteRecordsSteps) Took(result any) bool {
	r := result.(recordsDeleted)
	s.answers, s.items = append(s.answers, r.answers...), s.items[len(r.answers):]
	if r.unfinished {
		s.items[0].Offset = r.target
	}
	return len(s.items) == 0
}

func (s *deleteRecordsSteps) Answer() any {
	return &DeleteRecordsResponse{Responses: orEmpty(s.answers)}
}

// deleteRecords is the logged command.
type deleteRecords struct {
	items []DeleteRecords
	rows  int64 // logs and batches that the entry may take
}

// recordsDeleted is its result: the answers of the items that it finished.
type recordsDeleted struct {
	answers    []DeletedRecords
	unfinished bool  // the next item lost some of its batches
	target     int64 // what that item's offset came to
}

func (*deleteRecords) Op() string { return "delete-records" }

func (c *deleteRecords) fields(f *codec) {
	f.object(2, func(f *codec) {
		list(f, &c.items, 3, func(f *codec, r *DeleteRecords) {
			f.topicID(&r.TopicID)
			f.int32(&r.Partition)
			f.int64(&r.Offset)
		})
		f.int64(&c.rows)
	})
}

// Apply takes rows until the command's budget is spent; the first item always
// makes progress.
func (c *deleteRecords) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	var result recordsDeleted
	left := c.rows
	for i := range c.items {
		if i > 0 && left <= 0 {
			break
		}
		d, err := decideDeleteRecords(&tx.ReadTx, &c.items[i])
		if err != nil {
			return nil, err
		}
		taken, finished, err := d.apply(tx, nowMs, max(1, left-1))
		if err != nil {
			return nil, err
		}
		if !finished {
			result.unfinished, result.target = true, d.target
			break
		}
		left -= 1 + taken
		result.answers = append(result.answers, d.answer)
	}
	return result, nil
}

// recordsDecision is what one item comes to.
type recordsDecision struct {
	answer DeletedRecords
	moves  bool
	key    store.LogKey
	log    store.Log // when moves
	target int64     // new log start, when moves
}

func decideDeleteRecords(tx *store.ReadTx, r *DeleteRecords) (recordsDecision, error) {
	d := recordsDecision{
		answer: DeletedRecords{r.TopicID, r.Partition, UnknownTopicOrPartition, -1},
		key:    store.LogKey{Topic: r.TopicID, Partition: r.Partition}, target: r.Offset,
	}
	l, ok, err := tx.LiveLog(d.key)
	if err != nil || !ok {
		return d, err
	}
	if d.target == -1 {
		d.target = l.HighWatermark
	}
	if d.target < 0 || d.target > l.HighWatermark {
		d.answer.Error = OffsetOutOfRange
		return d, nil
	}
	d.answer.Error, d.answer.LogStartOffset = None, max(l.LogStartOffset, d.target)
	d.log, d.moves = l, d.target > l.LogStartOffset
	return d, nil
}

// apply removes at most limit batches below the target. When more are left the
// log starts at the first of them for now.
func (d *recordsDecision) apply(tx *store.WriteTx, nowMs, limit int64) (taken int64, finished bool, err error) {
	if !d.moves {
		return 0, true, nil
	}
	below := func(b *store.Batch) bool { return b.LastOffset < d.target }
	t, err := tx.TrimBatches(&d.log, nowMs, limit, below)
	if err != nil {
		return 0, false, err
	}
	first, ok, err := firstBatch(&tx.ReadTx, &d.log)
	if err != nil {
		return 0, false, err
	}
	finished = !ok || !below(&first)
	start := d.target
	if !finished {
		start = first.BaseOffset
	}
	d.log.LogStartOffset = max(d.log.LogStartOffset, start)
	return t.Batches, finished, tx.PutLog(d.key, d.log)
}
