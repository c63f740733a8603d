package ops

import "github.com/cpnode/cpnode/store"

// RepairDisklessLogRequest sets the first offset that diskless storage owns.
type RepairDisklessLogRequest struct {
	Requests []RepairLog `json:"requests"`
}

// RepairLog sets it on one existing log.
type RepairLog struct {
	TopicID             store.TopicID `json:"topic_id"`
	Partition           int32         `json:"partition" min:"0"`
	DisklessStartOffset int64         `json:"diskless_start_offset"`
}

// RepairDisklessLogResponse answers each partition in the order of the request.
type RepairDisklessLogResponse struct {
	Responses []RepairedLog `json:"responses"`
}

// RepairedLog is the answer for one partition.
type RepairedLog struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
}

// Validate bounds the request.
func (r *RepairDisklessLogRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Begin logs entries of s.ItemRows partitions.
func (r *RepairDisklessLogRequest) Begin(s Settings) Steps {
	return &together[RepairLog, RepairedLog]{
		items: r.Requests, budget: s.ItemRows, weigh: weightOne[RepairLog],
		decide:  decideRepair,
		command: func(items []RepairLog) Command { return &repairLogs{items} },
		respond: func(answers []RepairedLog) any { return &RepairDisklessLogResponse{Responses: answers} },
	}
}

// repairLogs is the logged command.
type repairLogs struct{ items []RepairLog }

func (*repairLogs) Op() string { return "repair-diskless-log" }

func (c *repairLogs) fields(f *codec) {
	f.object(1, func(f *codec) {
		list(f, &c.items, 3, func(f *codec, r *RepairLog) {
			f.topicID(&r.TopicID)
			f.int32(&r.Partition)
			f.int64(&r.DisklessStartOffset)
		})
	})
}

// Apply rewrites one row an item of the command.
func (c *repairLogs) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyTogether(tx, c.items, nowMs, decideRepair)
}

// decideRepair refuses a registered partition, whether its log has begun or not. Else it
// takes any offset that is not negative, also one above the high watermark: it is there
// to mend what went wrong elsewhere.
func decideRepair(tx *store.ReadTx, r *RepairLog, _ int64) (change[RepairedLog], error) {
	key := store.LogKey{Topic: r.TopicID, Partition: r.Partition}
	answer := RepairedLog{r.TopicID, r.Partition, None}
	if _, registered, err := tx.Registration(key); err != nil || registered { // override-switch mends that
		answer.Error = InvalidRequest
		return change[RepairedLog]{answer: answer}, err
	}
	l, ok, err := tx.LiveLog(key)
	switch {
	case err != nil:
		return change[RepairedLog]{}, err
	case !ok:
		answer.Error = UnknownTopicOrPartition
		return change[RepairedLog]{answer: answer}, nil
	case r.DisklessStartOffset < 0:
		answer.Error = InvalidRequest
		return change[RepairedLog]{answer: answer}, nil
	}
	if r.DisklessStartOffset == l.DisklessStartOffset {
		return change[RepairedLog]{answer: answer}, nil
	}
	l.DisklessStartOffset = r.DisklessStartOffset
	return change[RepairedLog]{answer, putLog(key, l)}, nil
}
