package ops

import "github.com/cpnode/cpnode/store"

// ListOffsetsRequest asks for offsets by time, or for the special ones below.
type ListOffsetsRequest struct {
	Requests []ListOffset `json:"requests"`
}

// ListOffset asks for one partition.
type ListOffset struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition" min:"0"`
	Timestamp int64         `json:"timestamp" doc:"Unix ms, or -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5 latest tiered."`
}

// ListOffsetsResponse answers each partition in the order of the request.
type ListOffsetsResponse struct {
	Responses []ListedOffset `json:"responses"`
}

// ListedOffset is the answer for one partition; -1 is no such offset.
type ListedOffset struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
	Timestamp int64         `json:"timestamp"`
	Offset    int64         `json:"offset"`
}

// Kafka's special timestamps.
const (
	timestampLatest        = -1
	timestampEarliest      = -2
	timestampMax           = -3
	timestampEarliestLocal = -4
	timestampLatestTiered  = -5
)

// Validate bounds the request.
func (r *ListOffsetsRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Query finds a timestamp by the groups of the log, not by its batches.
func (r *ListOffsetsRequest) Query(tx *store.ReadTx, _ Limits) (any, error) {
	answer := &ListOffsetsResponse{Responses: make([]ListedOffset, len(r.Requests))}
	for i := range r.Requests {
		if err := r.Requests[i].find(tx, &answer.Responses[i]); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (r *ListOffset) find(tx *store.ReadTx, a *ListedOffset) error {
	*a = ListedOffset{TopicID: r.TopicID, Partition: r.Partition, Error: None, Timestamp: -1, Offset: -1}
	l, ok, err := tx.LiveLog(store.LogKey{Topic: r.TopicID, Partition: r.Partition})
	if err != nil {
		return err
	}
	if !ok {
		a.Error = UnknownTopicOrPartition
		return nil
	}
	switch r.Timestamp {
	case timestampLatest:
		a.Offset = l.HighWatermark
	case timestampEarliest:
		a.Offset = l.LogStartOffset
		if l.RemoteLogStartOffset != store.Absent {
			a.Offset = l.RemoteLogStartOffset
		}
	case timestampEarliestLocal:
		a.Offset = l.LogStartOffset
	case timestampLatestTiered: // nothing is tiered as far as this state knows
	default:
		return r.search(tx, &l, a)
	}
	return nil
}

// search answers the timestamps that need a look at batches.
func (r *ListOffset) search(tx *store.ReadTx, l *store.Log, a *ListedOffset) error {
	if r.Timestamp == timestampMax {
		b, ok, err := tx.MaxTimestampBatch(l)
		if ok {
			a.Timestamp, a.Offset = b.Timestamp(), b.LastOffset
		}
		return err
	}
	if r.Timestamp < 0 {
		a.Error = UnsupportedVersion
		return nil
	}
	b, ok, err := tx.FirstBatchAtOrAfter(l, r.Timestamp)
	if ok {
		a.Timestamp, a.Offset = b.Timestamp(), max(b.BaseOffset, l.LogStartOffset)
	}
	return err
}
