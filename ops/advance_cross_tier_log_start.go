package ops

import "github.com/cpnode/cpnode/store"

// AdvanceCrossTierLogStartRequest reports the lowest offsets readable in tiered storage.
type AdvanceCrossTierLogStartRequest struct {
	Requests []AdvanceLogStart `json:"requests"`
}

// AdvanceLogStart reports one partition.
type AdvanceLogStart struct {
	TopicID              store.TopicID `json:"topic_id"`
	Partition            int32         `json:"partition" min:"0"`
	RemoteLogStartOffset int64         `json:"remote_log_start_offset" min:"0" doc:"Moves forward only; 0 is a meaningful value."`
}

// AdvanceCrossTierLogStartResponse answers each partition in the order of the
// request with the value now stored.
type AdvanceCrossTierLogStartResponse struct {
	Responses []CrossTierLogStart `json:"responses"`
}

// Validate bounds the request.
func (r *AdvanceCrossTierLogStartRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Begin logs entries of s.ItemRows partitions.
func (r *AdvanceCrossTierLogStartRequest) Begin(s Settings) Steps {
	return &together[AdvanceLogStart, CrossTierLogStart]{
		items: r.Requests, budget: s.ItemRows, weigh: weightOne[AdvanceLogStart],
		decide:  decideAdvance,
		command: func(items []AdvanceLogStart) Command { return &advanceLogStarts{items} },
		respond: func(answers []CrossTierLogStart) any { return &AdvanceCrossTierLogStartResponse{Responses: answers} },
	}
}

// advanceLogStarts is the logged command.
type advanceLogStarts struct{ items []AdvanceLogStart }

func (*advanceLogStarts) Op() string { return "advance-cross-tier-log-start" }

func (c *advanceLogStarts) fields(f *codec) {
	f.object(1, func(f *codec) {
		list(f, &c.items, 3, func(f *codec, r *AdvanceLogStart) {
			f.topicID(&r.TopicID)
			f.int32(&r.Partition)
			f.int64(&r.RemoteLogStartOffset)
		})
	})
}

// Apply moves one row an item of the command.
func (c *advanceLogStarts) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyTogether(tx, c.items, nowMs, decideAdvance)
}

func decideAdvance(tx *store.ReadTx, r *AdvanceLogStart, _ int64) (change[CrossTierLogStart], error) {
	key := store.LogKey{Topic: r.TopicID, Partition: r.Partition}
	l, ok, err := tx.LiveLog(key)
	if err != nil {
		return change[CrossTierLogStart]{}, err
	}
	if !ok || r.RemoteLogStartOffset <= l.RemoteLogStartOffset { // an absent one is below all
		return change[CrossTierLogStart]{answer: crossTierLogStart(r.TopicID, r.Partition, &l, ok)}, nil
	}
	l.RemoteLogStartOffset = r.RemoteLogStartOffset
	return change[CrossTierLogStart]{crossTierLogStart(r.TopicID, r.Partition, &l, true), putLog(key, l)}, nil
}

// putLog writes the row of a log as it was decided.
func putLog(key store.LogKey, l store.Log) func(*store.WriteTx) error {
	return func(tx *store.WriteTx) error { return tx.PutLog(key, l) }
}
