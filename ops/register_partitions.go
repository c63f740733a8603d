package ops

import "github.com/cpnode/cpnode/store"

// RegisterPartitionsRequest registers partitions that brokers keep replicas of, and
// with the first of them the topic's origin.
type RegisterPartitionsRequest struct {
	TopicID    store.TopicID       `json:"topic_id"`
	TopicName  string              `json:"topic_name"`
	Partitions []RegisterPartition `json:"partitions" doc:"Existing ones stay as they are; with none, only the config is set."`
	Diskless   bool                `json:"diskless" default:"false" doc:"Born diskless: the logs are made as well."`
	Config     map[string]string   `json:"config" default:"{}" doc:"Config keys to set; others stay as they are."`
}

// RegisterPartition is one partition with its replicas.
type RegisterPartition struct {
	Partition int32   `json:"partition" min:"0"`
	Replicas  []int32 `json:"replicas" min:"0" doc:"Broker ids, the preferred leader first."`
}

// RegisterPartitionsResponse says whether all of it was done; Message says why not.
type RegisterPartitionsResponse struct {
	Error   Code   `json:"error"`
	Message string `json:"message" doc:"For people; empty with NONE."`
}
