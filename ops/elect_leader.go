package ops

import "github.com/cpnode/cpnode/store"

// ElectLeaderRequest asks for another leader of a partition.
type ElectLeaderRequest struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition" min:"0"`
	Election  string        `json:"election" oneof:"preferred,unclean" doc:"preferred: the first replica. unclean: a live replica that may lack records, where nothing else is left."`
}

// ElectLeaderResponse says whether the partition has another leader now.
type ElectLeaderResponse struct {
	Error Code `json:"error"`
}
