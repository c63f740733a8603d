package ops

import "github.com/cpnode/cpnode/store"

// GetProducerStateRequest asks what is remembered of the idempotent producers of logs.
type GetProducerStateRequest struct {
	Requests []LogRef `json:"requests"`
}

// GetProducerStateResponse answers each partition in the order of the request.
type GetProducerStateResponse struct {
	Responses []ProducerStates `json:"responses"`
}

// ProducerStates is the answer for one partition: by producer id, oldest batch first.
type ProducerStates struct {
	TopicID   store.TopicID   `json:"topic_id"`
	Partition int32           `json:"partition"`
	Error     Code            `json:"error"`
	Entries   []ProducerState `json:"entries"`
}

// ProducerState is one remembered batch of a producer.
type ProducerState struct {
	ProducerID        int64 `json:"producer_id" min:"0"`
	ProducerEpoch     int16 `json:"producer_epoch" min:"0"`
	BaseSequence      int32 `json:"base_sequence"`
	LastSequence      int32 `json:"last_sequence"`
	AssignedOffset    int64 `json:"assigned_offset"`
	BatchMaxTimestamp int64 `json:"batch_max_timestamp"`
}

// Validate bounds the request.
func (r *GetProducerStateRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Query stops at lim.AnswerRows entries over all partitions, without an error.
func (r *GetProducerStateRequest) Query(tx *store.ReadTx, lim Limits) (any, error) {
	answer := &GetProducerStateResponse{Responses: make([]ProducerStates, len(r.Requests))}
	left := lim.AnswerRows
	for i, ref := range r.Requests {
		a := &answer.Responses[i]
		*a = ProducerStates{TopicID: ref.TopicID, Partition: ref.Partition, Error: None, Entries: []ProducerState{}}
		l, ok, err := tx.LiveLog(store.LogKey{Topic: ref.TopicID, Partition: ref.Partition})
		if err != nil {
			return nil, err
		}
		if !ok {
			a.Error = UnknownTopicOrPartition
			continue
		}
		if a.Entries, err = producerEntries(tx, l.ID, left); err != nil {
			return nil, err
		}
		left -= len(a.Entries)
	}
	return answer, nil
}

// producerEntries is at most limit remembered batches of a log.
func producerEntries(tx *store.ReadTx, logID uint64, limit int) ([]ProducerState, error) {
	entries := []ProducerState{}
	err := tx.ProducersOfLog(logID, func(id int64, p *store.Producer) bool {
		for _, e := range p.Recent() {
			if len(entries) == limit {
				return false
			}
			entries = append(entries, ProducerState{id, p.Epoch, e.BaseSequence, e.LastSequence, e.AssignedOffset, e.BatchMaxTimestamp})
		}
		return true
	})
	return entries, err
}
