package ops

import "github.com/cpnode/cpnode/store"

// AlterPartitionRequest is a leader's wish to change the ISR of a partition whose
// records are on local disks.
type AlterPartitionRequest struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition" min:"0"`
	BrokerID       int32         `json:"broker_id" min:"0" doc:"The leader."`
	LeaderEpoch    int32         `json:"leader_epoch"`
	PartitionEpoch int32         `json:"partition_epoch"`
	NewISR         []ISRMember   `json:"new_isr" doc:"All of it, the leader included."`
}

// ISRMember is a broker under the epoch that the leader knows of it.
type ISRMember struct {
	BrokerID    int32 `json:"broker_id" min:"0"`
	BrokerEpoch int64 `json:"broker_epoch"`
}

// AlterPartitionResponse says whether the ISR is now the one asked for.
type AlterPartitionResponse struct {
	Error Code `json:"error"`
}
