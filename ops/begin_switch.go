package ops

import "github.com/cpnode/cpnode/store"

// BeginSwitchRequest begins to turn a classic topic into a diskless one.
type BeginSwitchRequest struct {
	TopicID store.TopicID `json:"topic_id"`
}

// BeginSwitchResponse says whether every partition is in the switch now; Message says
// why not, and names the partition.
type BeginSwitchResponse struct {
	Error   Code   `json:"error"`
	Message string `json:"message" doc:"For people; empty with NONE."`
}
