package ops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpnode/cpnode/store"
)

// CreateTopicsRequest creates topics or adds partitions to them.
type CreateTopicsRequest struct {
	Topics []CreateTopic `json:"topics"`
}

// CreateTopic asks for the partitions [FirstPartition, NumPartitions) of a topic.
type CreateTopic struct {
	TopicID        store.TopicID     `json:"topic_id"`
	TopicName      string            `json:"topic_name"`
	FirstPartition int32             `json:"first_partition" default:"0" min:"0"`
	NumPartitions  int32             `json:"num_partitions" min:"0" doc:"Partitions that the topic is to have; existing ones stay as they are."`
	Config         map[string]string `json:"config" default:"{}" doc:"Config keys to set; others stay as they are."`
}

// CreateTopicsResponse answers each topic in the order of the request.
type CreateTopicsResponse struct {
	Topics []CreatedTopic `json:"topics"`
}

// CreatedTopic is the answer to one topic; when it failed PartitionsCreated is -1, and
// Message says why.
type CreatedTopic struct {
	TopicID           store.TopicID `json:"topic_id"`
	Error             Code          `json:"error"`
	PartitionsCreated int64         `json:"partitions_created"`
	Message           string        `json:"message,omitzero" doc:"Why not, for people."`
}

// WithoutMessage is the answer as a trace has it.
func (r *CreateTopicsResponse) WithoutMessage() any {
	plain := &CreateTopicsResponse{Topics: slices.Clone(r.Topics)}
	for i := range plain.Topics {
		plain.Topics[i].Message = ""
	}
	return plain
}

// Validate bounds the request and checks the config.
func (r *CreateTopicsRequest) Validate(lim Limits) error {
	for i := range r.Topics {
		if err := checkConfig(fmt.Sprintf("topics[%d].config", i), r.Topics[i].Config); err != nil {
			return err
		}
	}
	return atMost("topics", len(r.Topics), lim.Items)
}

// Begin logs one entry a topic, all or nothing.
func (r *CreateTopicsRequest) Begin(s Settings) Steps {
	return &inTurn[CreateTopic, CreatedTopic]{
		items: r.Topics,
		begin: func(t *CreateTopic) Steps {
			return &once[CreatedTopic]{command: &createTopic{topic: *t, maxPartitions: int64(s.Limits.Partitions)}}
		},
		respond: func(answers []CreatedTopic) any { return &CreateTopicsResponse{Topics: answers} },
	}
}

// createTopic is the logged command.
type createTopic struct {
	topic         CreateTopic
	maxPartitions int64
}

func (*createTopic) Op() string { return "create-topics" }

func (c *createTopic) fields(f *codec) {
	f.object(6, func(f *codec) {
		f.topicID(&c.topic.TopicID)
		f.string(&c.topic.TopicName)
		f.int32(&c.topic.FirstPartition)
		f.int32(&c.topic.NumPartitions)
		f.pairs(&c.topic.Config)
		f.int64(&c.maxPartitions)
	})
}

// Apply creates the partitions that are missing, at most maxPartitions.
func (c *createTopic) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *createTopic) decide(tx *store.ReadTx, nowMs int64) (change[CreatedTopic], error) {
	t, known, err := tx.Topic(c.topic.TopicID)
	if err != nil {
		return change[CreatedTopic]{}, err
	}
	switch refused, err := c.check(tx, &t, known); {
	case err != nil:
		return change[CreatedTopic]{}, err
	case refused != nil:
		return change[CreatedTopic]{answer: CreatedTopic{c.topic.TopicID, refused.Code, -1, refused.Message}}, nil
	}
	missing, err := c.missing(tx)
	if err != nil {
		return change[CreatedTopic]{}, err
	}
	answer := CreatedTopic{TopicID: c.topic.TopicID, Error: None, PartitionsCreated: int64(len(missing))}
	config, configured := mergedConfig(t.Config, c.topic.Config)
	if len(missing) == 0 && (!known || !configured) {
		return change[CreatedTopic]{answer: answer}, nil
	}
	if !known {
		t = newTopic(c.topic.TopicName, config, nowMs)
	}
	t.Config = config
	return change[CreatedTopic]{answer, func(tx *store.WriteTx) error { return c.write(tx, t, missing) }}, nil
}

// check says why the topic is refused, nil when it is not.
func (c *createTopic) check(tx *store.ReadTx, t *store.Topic, known bool) (*Error, error) {
	r := &c.topic
	switch {
	case r.FirstPartition < 0 || r.FirstPartition > r.NumPartitions:
		return Errorf(InvalidRequest, "first_partition must be 0 to num_partitions"), nil
	case int64(r.NumPartitions) > c.maxPartitions:
		return Errorf(InvalidRequest, "num_partitions must be at most %d", c.maxPartitions), nil
	case !known:
		return checkNewTopic(tx, r.TopicID, r.TopicName)
	}
	return checkKnownTopic(t, r.TopicName, store.OriginDiskless, r.Config), nil
}

// missing is the asked partitions that have no log.
func (c *createTopic) missing(tx *store.ReadTx) ([]int32, error) {
	var missing []int32
	next := c.topic.FirstPartition
	err := tx.LogsOfTopic(c.topic.TopicID, next-1, func(k store.LogKey, _ *store.Log) (bool, error) {
		for ; next < min(k.Partition, c.topic.NumPartitions); next++ {
			missing = append(missing, next)
		}
		next = k.Partition + 1
		return next < c.topic.NumPartitions, nil
	})
	for ; next < c.topic.NumPartitions; next++ {
		missing = append(missing, next)
	}
	return missing, err
}

// mergedConfig is a topic's config with the given keys set, and whether that
// changes it. The config of a row is never changed in place.
func mergedConfig(old, given map[string]string) (merged map[string]string, changed bool) {
	merged = maps.Clone(old)
	for k, v := range given {
		if present, ok := old[k]; ok && present == v {
			continue
		}
		if merged == nil {
			merged = make(map[string]string, len(given))
		}
		merged[k], changed = v, true
	}
	return merged, changed
}

func (c *createTopic) write(tx *store.WriteTx, t store.Topic, missing []int32) error {
	if err := tx.PutTopic(c.topic.TopicID, t); err != nil {
		return err
	}
	for _, p := range missing {
		if err := tx.CreateLog(store.LogKey{Topic: c.topic.TopicID, Partition: p}, store.NewLog(0, 0)); err != nil {
			return err
		}
	}
	return nil
}
