package ops

import "github.com/cpnode/cpnode/store"

// DeleteTopicsRequest soft-deletes topics: their logs are gone for every
// operation but purge-deleted-logs, and their names are free.
type DeleteTopicsRequest struct {
	TopicIDs []store.TopicID `json:"topic_ids" doc:"Unknown ids are no error."`
}

// DeleteTopicsResponse counts the logs that were live before.
type DeleteTopicsResponse struct {
	LogsDeleted int64 `json:"logs_deleted"`
}

// Validate bounds the request.
func (r *DeleteTopicsRequest) Validate(lim Limits) error {
	return atMost("topic_ids", len(r.TopicIDs), lim.Items)
}

// Begin logs one entry a live topic.
func (r *DeleteTopicsRequest) Begin(Settings) Steps {
	return &inTurn[store.TopicID, int64]{
		items: r.TopicIDs,
		begin: func(id *store.TopicID) Steps { return &once[int64]{command: &deleteTopic{id: *id}} },
		respond: func(deleted []int64) any {
			answer := &DeleteTopicsResponse{}
			for _, n := range deleted {
				answer.LogsDeleted += n
			}
			return answer
		},
	}
}

// deleteTopic is the logged command.
type deleteTopic struct{ id store.TopicID }

func (*deleteTopic) Op() string { return "delete-topics" }

func (c *deleteTopic) fields(f *codec) {
	f.object(1, func(f *codec) { f.topicID(&c.id) })
}

// Apply stamps the topic's logs, which create-topics bounds. It touches no batch.
func (c *deleteTopic) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *deleteTopic) decide(tx *store.ReadTx, nowMs int64) (change[int64], error) {
	t, ok, err := tx.Topic(c.id)
	if err != nil || !ok || t.Deleted {
		return change[int64]{}, err
	}
	return change[int64]{t.Logs, func(tx *store.WriteTx) error {
		_, err := tx.SoftDeleteTopic(c.id, nowMs)
		return err
	}}, nil
}
