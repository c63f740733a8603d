package ops

import "github.com/cpnode/cpnode/store"

// CommitSealRequest commits the seals of partitions that are switched: from where on
// diskless storage owns them.
type CommitSealRequest struct {
	Requests []CommitSeal `json:"requests"`
}

// CommitSeal is what the leader of one partition found when it had sealed its log.
type CommitSeal struct {
	TopicID             store.TopicID   `json:"topic_id"`
	Partition           int32           `json:"partition" min:"0"`
	BrokerID            int32           `json:"broker_id" min:"0"`
	LeaderEpoch         int32           `json:"leader_epoch"`
	LogStartOffset      int64           `json:"log_start_offset"`
	DisklessStartOffset int64           `json:"diskless_start_offset" doc:"The seal: the end of the sealed log."`
	ProducerStates      []ProducerState `json:"producer_states" default:"[]" doc:"Remembered batches, oldest first for each producer."`
}

// CommitSealResponse answers each partition in the order of the request.
type CommitSealResponse struct {
	Responses []CommittedSeal `json:"responses"`
}

// CommittedSeal is the answer for one partition.
type CommittedSeal struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
}
