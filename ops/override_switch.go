package ops

import "github.com/cpnode/cpnode/store"

// OverrideSwitchRequest is an operator's change of where a partition stands in its
// switch, without asking its leader.
type OverrideSwitchRequest struct {
	TopicID             store.TopicID `json:"topic_id"`
	Partition           int32         `json:"partition" min:"0"`
	SealOffset          int64         `json:"seal_offset" doc:">= 0 seals there, -1 aborts the switch, -2 arms it (again)."`
	LogStartOffset      int64         `json:"log_start_offset" doc:"Of the leader's classic log; a seal lies between the two."`
	LogEndOffset        int64         `json:"log_end_offset" doc:"Of the leader's classic log."`
	ClearProducerStates bool          `json:"clear_producer_states" default:"false" doc:"Forget the producers that an earlier seal came with."`
	DryRun              bool          `json:"dry_run" default:"false" doc:"Only say what would happen."`
}

// OverrideSwitchResponse says what was done, or would be. [UnreadableFrom,
// UnreadableTo) are the classic records that nobody can read any more; both are -1
// when there are none.
type OverrideSwitchResponse struct {
	Error          Code   `json:"error"`
	Message        string `json:"message" doc:"For people; empty with NONE."`
	UnreadableFrom int64  `json:"unreadable_from"`
	UnreadableTo   int64  `json:"unreadable_to"`
}
