package ops

import "github.com/cpnode/cpnode/store"

// LogRef names one partition of a topic.
type LogRef struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition" min:"0"`
}

// GetLogInfoRequest asks for the offsets and size of logs.
type GetLogInfoRequest struct {
	Requests []LogRef `json:"requests"`
}

// GetLogInfoResponse answers each partition in the order of the request.
type GetLogInfoResponse struct {
	Responses []LogInfo `json:"responses"`
}

// LogInfo is the state of one log; all numbers are -1 when it does not exist.
type LogInfo struct {
	TopicID              store.TopicID `json:"topic_id"`
	Partition            int32         `json:"partition"`
	Error                Code          `json:"error"`
	LogStartOffset       int64         `json:"log_start_offset"`
	HighWatermark        int64         `json:"high_watermark"`
	DisklessStartOffset  int64         `json:"diskless_start_offset"`
	ByteSize             int64         `json:"byte_size"`
	RemoteLogStartOffset int64         `json:"remote_log_start_offset" doc:"-1 when never reported."`
}

// Validate bounds the request.
func (r *GetLogInfoRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Query reads one row a partition.
func (r *GetLogInfoRequest) Query(tx *store.ReadTx, _ Limits) (any, error) {
	answer := &GetLogInfoResponse{Responses: make([]LogInfo, len(r.Requests))}
	for i, ref := range r.Requests {
		l, ok, err := tx.LiveLog(store.LogKey{Topic: ref.TopicID, Partition: ref.Partition})
		if err != nil {
			return nil, err
		}
		answer.Responses[i] = logInfo(ref, &l, ok)
	}
	return answer, nil
}

func logInfo(ref LogRef, l *store.Log, exists bool) LogInfo {
	if !exists {
		return LogInfo{ref.TopicID, ref.Partition, UnknownTopicOrPartition, -1, -1, -1, -1, -1}
	}
	return LogInfo{
		TopicID: ref.TopicID, Partition: ref.Partition, Error: None,
		LogStartOffset: l.LogStartOffset, HighWatermark: l.HighWatermark, DisklessStartOffset: l.DisklessStartOffset,
		ByteSize: l.ByteSize, RemoteLogStartOffset: l.RemoteLogStartOffset,
	}
}
