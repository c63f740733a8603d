package ops

import "github.com/cpnode/cpnode/store"

// PruneDisklessLogsRequest removes batches that tiered storage holds.
type PruneDisklessLogsRequest struct {
	Requests   []PruneLog `json:"requests"`
	MaxBatches int64      `json:"max_batches" min:"0" doc:"Cap for each partition; 0 = all."`
}

// PruneLog asks for one partition.
type PruneLog struct {
	TopicID             store.TopicID `json:"topic_id"`
	Partition           int32         `json:"partition" min:"0"`
	HighestRemoteOffset int64         `json:"highest_remote_offset" doc:"Last offset that tiered storage holds, -1 = none."`
}

// PruneDisklessLogsResponse answers each partition in the order of the request.
type PruneDisklessLogsResponse struct {
	Responses []PrunedLog `json:"responses"`
}

// PrunedLog is the answer for one partition; its numbers are -1 when it failed.
type PrunedLog struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition"`
	Error          Code          `json:"error"`
	LogStartOffset int64         `json:"log_start_offset"`
	BatchesDeleted int64         `json:"batches_deleted"`
	BytesDeleted   int64         `json:"bytes_deleted"`
	MoreRemain     bool          `json:"more_remain" doc:"The cap left batches that tiered storage holds."`
}

// Validate bounds the request.
func (r *PruneDisklessLogsRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Begin logs entries of one partition and s.PruneRows batches, so that one
// partition's failure leaves the others done.
func (r *PruneDisklessLogsRequest) Begin(s Settings) Steps {
	return &inTurn[PruneLog, PrunedLog]{
		items: r.Requests,
		begin: func(p *PruneLog) Steps {
			return &pruneSteps{command: pruneLog{log: store.LogKey{Topic: p.TopicID, Partition: p.Partition}, highestRemote: p.HighestRemoteOffset},
				rows: s.PruneRows, left: budget(r.MaxBatches), answer: PrunedLog{TopicID: p.TopicID, Partition: p.Partition, Error: None}}
		},
		respond: func(answers []PrunedLog) any { return &PruneDisklessLogsResponse{Responses: answers} },
	}
}

// pruneSteps prunes one partition.
type pruneSteps struct {
	command pruneLog
	rows    int64
	left    int64 // of the client's cap
	answer  PrunedLog
}

func (s *pruneSteps) Next(tx *store.ReadTx, _ int64) (Command, error) {
	l, ok, err := tx.LiveLog(s.command.log)
	if err != nil {
		return nil, err
	}
	if !ok {
		s.add(trimmed{})
		return nil, nil
	}
	first, has, err := firstBatch(tx, &l)
	if err != nil {
		return nil, err
	}
	if has && first.LastOffset <= s.command.highestRemote || s.command.start(&l, &first, has) > l.LogStartOffset {
		return s.Again(), nil
	}
	s.add(trimmed{exists: true, logStart: l.LogStartOffset})
	return nil, nil
}

// Again needs no look: the last part said that batches are left.
func (s *pruneSteps) Again() Command {
	cmd := s.command
	cmd.maxBatches = min(s.rows, s.left)
	return &cmd
}

// Took goes on while batches should go and the client's cap allows.
func (s *pruneSteps) Took(result any) bool {
	t := result.(trimmed)
	s.add(t)
	s.left -= t.batches
	return !t.more || s.left <= 0
}

func (s *pruneSteps) add(t trimmed) {
	a := &s.answer
	if !t.exists {
		*a = PrunedLog{a.TopicID, a.Partition, UnknownTopicOrPartition, -1, -1, -1, false}
		return
	}
	a.LogStartOffset, a.MoreRemain = t.logStart, t.more
	a.BatchesDeleted += t.batches
	a.BytesDeleted += t.bytes
}

func (s *pruneSteps) Answer() any { return s.answer }

// pruneLog is the logged command.
type pruneLog struct {
	log           store.LogKey
	highestRemote int64
	maxBatches    int64
}

func (*pruneLog) Op() string { return "prune-diskless-logs" }

func (c *pruneLog) fields(f *codec) {
	f.object(4, func(f *codec) {
		f.log(&c.log)
		f.int64(&c.highestRemote)
		f.int64(&c.maxBatches)
	})
}

// Apply removes at most maxBatches batches and moves the log start up to what is
// left. What EARLIEST answers stays: tiered storage still has it.
func (c *pruneLog) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	l, ok, err := tx.LiveLog(c.log)
	if err != nil || !ok {
		return trimmed{}, err
	}
	covered := func(b *store.Batch) bool { return b.LastOffset <= c.highestRemote }
	t, err := tx.TrimBatches(&l, nowMs, c.maxBatches, covered)
	if err != nil {
		return nil, err
	}
	first, has, err := firstBatch(&tx.ReadTx, &l)
	if err != nil {
		return nil, err
	}
	moved := false
	if start := c.start(&l, &first, has); start > l.LogStartOffset {
		if l.RemoteLogStartOffset == store.Absent {
			l.RemoteLogStartOffset = l.LogStartOffset
		}
		l.LogStartOffset, moved = start, true
	}
	result := trimmed{exists: true, logStart: l.LogStartOffset, batches: t.Batches, bytes: t.Bytes, more: has && covered(&first)}
	if !moved && t.Batches == 0 {
		return result, nil
	}
	return result, tx.PutLog(c.log, l)
}

// start is where a pruned log begins: at its first batch, and without one behind
// what tiered storage holds, so that an empty switched log advances to its seal.
func (c *pruneLog) start(l *store.Log, first *store.Batch, has bool) int64 {
	switch {
	case has:
		return first.BaseOffset
	case c.highestRemote < l.HighWatermark:
		return c.highestRemote + 1
	}
	return l.HighWatermark
}
