package ops

import "github.com/cpnode/cpnode/store"

// CommitPrefixInRemoteStorageRequest sets the flag of partitions whose complete classic
// prefix is in remote storage: from then on, only that copy is trusted.
type CommitPrefixInRemoteStorageRequest struct {
	Requests []CommitPrefix `json:"requests"`
}

// CommitPrefix is what the leader of one partition knows of its prefix.
type CommitPrefix struct {
	TopicID             store.TopicID `json:"topic_id"`
	Partition           int32         `json:"partition" min:"0"`
	BrokerID            int32         `json:"broker_id" min:"0"`
	LeaderEpoch         int32         `json:"leader_epoch"`
	LogStartOffset      int64         `json:"log_start_offset"`
	HighestRemoteOffset int64         `json:"highest_remote_offset" doc:"Last offset that remote storage holds; -1 = none."`
}

// CommitPrefixInRemoteStorageResponse answers each partition in the order of the request.
type CommitPrefixInRemoteStorageResponse struct {
	Responses []CommittedPrefix `json:"responses"`
}

// CommittedPrefix is the answer for one partition.
type CommittedPrefix struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
}
