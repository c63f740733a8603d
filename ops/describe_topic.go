package ops

import "github.com/cpnode/cpnode/store"

// DescribeTopicRequest asks for one topic, by id or by name.
type DescribeTopicRequest struct {
	TopicID   store.TopicID `json:"topic_id" default:"" doc:"Exactly one of topic_id and topic_name is given."`
	TopicName string        `json:"topic_name" default:"" doc:"Finds live topics only."`
}

// DescribeTopicResponse is the topic with its logs, by partition. The logs of a
// soft-deleted topic are UNKNOWN_TOPIC_OR_PARTITION, as get-log-info answers them.
type DescribeTopicResponse struct {
	Error Code `json:"error"`
	TopicInfo
	Logs []LogInfo `json:"logs"`
}

// Validate wants exactly one of the two.
func (r *DescribeTopicRequest) Validate(Limits) error {
	if r.TopicID.IsZero() == (r.TopicName == "") {
		return invalid("topic_id", "exactly one of topic_id and topic_name must be given")
	}
	return nil
}

// Query reads one topic and its logs, whose number create-topics bounds.
func (r *DescribeTopicRequest) Query(tx *store.ReadTx, _ Limits) (any, error) {
	id, t, ok, err := r.find(tx)
	if err != nil {
		return nil, err
	}
	if !ok {
		return &DescribeTopicResponse{Error: UnknownTopicOrPartition, Logs: []LogInfo{},
			TopicInfo: TopicInfo{TopicID: r.TopicID, TopicName: r.TopicName, Partitions: -1, DeletedAt: -1}}, nil
	}
	answer := &DescribeTopicResponse{Error: None, TopicInfo: topicInfo(id, &t), Logs: []LogInfo{}}
	err = tx.LogsOfTopic(id, -1, func(k store.LogKey, l *store.Log) (bool, error) {
		answer.Logs = append(answer.Logs, logInfo(LogRef{k.Topic, k.Partition}, l, !l.Deleted))
		return true, nil
	})
	return answer, err
}

func (r *DescribeTopicRequest) find(tx *store.ReadTx) (store.TopicID, store.Topic, bool, error) {
	id := r.TopicID
	if r.TopicName != "" {
		var ok bool
		var err error
		if id, ok, err = tx.TopicByName(r.TopicName); err != nil || !ok {
			return id, store.Topic{}, false, err
		}
	}
	t, ok, err := tx.Topic(id)
	return id, t, ok, err
}
