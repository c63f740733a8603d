package ops

import "github.com/cpnode/cpnode/store"

// GetCrossTierLogStartRequest asks for the lowest offsets readable in tiered storage.
type GetCrossTierLogStartRequest struct {
	Requests []LogRef `json:"requests"`
}

// GetCrossTierLogStartResponse answers each partition in the order of the request.
type GetCrossTierLogStartResponse struct {
	Responses []CrossTierLogStart `json:"responses"`
}

// CrossTierLogStart is the answer for one partition. The offset is -1 when it was
// never reported; it never falls back to the log start.
type CrossTierLogStart struct {
	TopicID              store.TopicID `json:"topic_id"`
	Partition            int32         `json:"partition"`
	Error                Code          `json:"error"`
	RemoteLogStartOffset int64         `json:"remote_log_start_offset"`
}

// Validate bounds the request.
func (r *GetCrossTierLogStartRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Query reads one row a partition.
func (r *GetCrossTierLogStartRequest) Query(tx *store.ReadTx, _ Limits) (any, error) {
	answer := &GetCrossTierLogStartResponse{Responses: make([]CrossTierLogStart, len(r.Requests))}
	for i, ref := range r.Requests {
		l, ok, err := tx.LiveLog(store.LogKey{Topic: ref.TopicID, Partition: ref.Partition})
		if err != nil {
			return nil, err
		}
		answer.Responses[i] = crossTierLogStart(ref.TopicID, ref.Partition, &l, ok)
	}
	return answer, nil
}

func crossTierLogStart(id store.TopicID, partition int32, l *store.Log, exists bool) CrossTierLogStart {
	if !exists {
		return CrossTierLogStart{id, partition, UnknownTopicOrPartition, -1}
	}
	return CrossTierLogStart{id, partition, None, l.RemoteLogStartOffset}
}
