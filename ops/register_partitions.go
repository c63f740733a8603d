package ops

import (
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/store"
)

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
	Message string `json:"message,omitzero" doc:"Why not, for people."`
}

// WithoutMessage is the answer as a trace has it.
func (r *RegisterPartitionsResponse) WithoutMessage() any {
	return &RegisterPartitionsResponse{Error: r.Error}
}

// Validate bounds the request and checks the config.
func (r *RegisterPartitionsRequest) Validate(lim Limits) error {
	for i := range r.Partitions {
		if err := atMost(fmt.Sprintf("partitions[%d].replicas", i), len(r.Partitions[i].Replicas), lim.Items); err != nil {
			return err
		}
	}
	if err := checkConfig("config", r.Config); err != nil {
		return err
	}
	return atMost("partitions", len(r.Partitions), lim.Items)
}

// Begin logs one entry, all or nothing.
func (r *RegisterPartitionsRequest) Begin(s Settings) Steps {
	return &once[*RegisterPartitionsResponse]{command: &registerPartitions{*r, int64(s.Limits.Partitions)}}
}

// registerPartitions is the logged command.
type registerPartitions struct {
	request       RegisterPartitionsRequest
	maxPartitions int64
}

func (*registerPartitions) Op() string { return "register-partitions" }

func (c *registerPartitions) fields(f *codec) {
	f.object(6, func(f *codec) {
		f.topicID(&c.request.TopicID)
		f.string(&c.request.TopicName)
		list(f, &c.request.Partitions, 2, func(f *codec, p *RegisterPartition) {
			f.int32(&p.Partition)
			f.int32s(&p.Replicas)
		})
		f.bool(&c.request.Diskless)
		f.pairs(&c.request.Config)
		f.int64(&c.maxPartitions)
	})
}

// Apply writes at most a row for each partition of the command, and its log.
func (c *registerPartitions) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *registerPartitions) decide(tx *store.ReadTx, nowMs int64) (change[*RegisterPartitionsResponse], error) {
	t, known, err := tx.Topic(c.request.TopicID)
	if err != nil {
		return change[*RegisterPartitionsResponse]{}, err
	}
	refusal, err := c.check(tx, &t, known)
	if err != nil || refusal != nil {
		return change[*RegisterPartitionsResponse]{answer: refusal}, err
	}
	done := &RegisterPartitionsResponse{Error: None}
	missing, refusal, err := c.missing(tx)
	if err != nil || refusal != nil {
		return change[*RegisterPartitionsResponse]{answer: refusal}, err
	}
	config, configured := mergedConfig(t.Config, c.request.Config)
	if len(missing) == 0 && (!known || !configured) {
		return change[*RegisterPartitionsResponse]{answer: done}, nil
	}
	if !known {
		t = newTopic(c.request.TopicName, config, nowMs)
		t.Origin = c.origin()
	}
	t.Config = config
	return change[*RegisterPartitionsResponse]{done, func(tx *store.WriteTx) error { return c.write(tx, t, missing) }}, nil
}

func (c *registerPartitions) origin() store.Origin {
	if c.request.Diskless {
		return store.OriginDiskless
	}
	return store.OriginClassic
}

// refused is the answer with a reason for people.
func (c *registerPartitions) refused(code Code, format string, args ...any) *RegisterPartitionsResponse {
	return &RegisterPartitionsResponse{Error: code, Message: fmt.Sprintf(format, args...)}
}

// check looks at the topic and its config; nil when they allow it.
func (c *registerPartitions) check(tx *store.ReadTx, t *store.Topic, known bool) (*RegisterPartitionsResponse, error) {
	r := &c.request
	if !known {
		refused, err := checkNewTopic(tx, r.TopicID, r.TopicName)
		if err != nil || refused == nil {
			return nil, err
		}
		return c.refused(refused.Code, "no new topic can have this id and name"), nil
	}
	if refused := checkKnownTopic(t, r.TopicName, c.origin(), r.Config); refused != nil {
		return c.refused(refused.Code, "%s", refused.Message), nil
	}
	return c.checkUnclean(tx)
}

// checkUnclean keeps unclean election off while it could lose the only copy of a prefix.
func (c *registerPartitions) checkUnclean(tx *store.ReadTx) (refusal *RegisterPartitionsResponse, err error) {
	if c.request.Config[keyUncleanElection] != "true" {
		return nil, nil
	}
	err = eachPartition(tx, c.request.TopicID, func(p *partition) bool {
		if p.state().ClassicPrefixOnlyOnLocalDisks() {
			refusal = c.refused(InvalidRequest, "partition %d: its prefix is only on local disks, so no leader may be elected without it", p.key.Partition)
		}
		return refusal == nil
	})
	return refusal, err
}

// missing is the asked partitions that are not registered, or why they cannot be.
func (c *registerPartitions) missing(tx *store.ReadTx) (missing []*RegisterPartition, refusal *RegisterPartitionsResponse, err error) {
	seen := map[int32]bool{}
	for i := range c.request.Partitions {
		asked := &c.request.Partitions[i]
		switch {
		case asked.Partition < 0 || int64(asked.Partition) >= c.maxPartitions || seen[asked.Partition]:
			return nil, c.refused(InvalidRequest, "partition %d: is named twice, or not below %d", asked.Partition, c.maxPartitions), nil
		case !distinct(asked.Replicas):
			return nil, c.refused(InvalidRequest, "partition %d: has no replicas, or one twice", asked.Partition), nil
		}
		seen[asked.Partition] = true
		r, exists, err := tx.Registration(store.LogKey{Topic: c.request.TopicID, Partition: asked.Partition})
		switch {
		case err != nil:
			return nil, nil, err
		case !exists:
			missing = append(missing, asked)
		case !slices.Equal(r.Replicas, asked.Replicas):
			return nil, c.refused(InvalidRequest, "partition %d: has the replicas %v", asked.Partition, r.Replicas), nil
		}
	}
	return missing, nil, nil
}

// distinct says whether ids are some, and none of them twice.
func distinct(ids []int32) bool {
	sorted := slices.Sorted(slices.Values(ids))
	return len(ids) > 0 && len(slices.Compact(sorted)) == len(ids)
}

func (c *registerPartitions) write(tx *store.WriteTx, t store.Topic, missing []*RegisterPartition) error {
	if err := tx.PutTopic(c.request.TopicID, t); err != nil {
		return err
	}
	for _, asked := range missing {
		if err := c.register(tx, asked); err != nil {
			return err
		}
	}
	return nil
}

// register writes a partition whose ISR is its live replicas.
func (c *registerPartitions) register(tx *store.WriteTx, asked *RegisterPartition) (err error) {
	key := store.LogKey{Topic: c.request.TopicID, Partition: asked.Partition}
	r := store.Registration{
		Replicas: asked.Replicas, ClassicToDisklessStartOffset: store.NoSwitch, DisklessLeaderEpoch: -1, SealedBy: noBroker, Leader: store.NoLeader,
	}
	if r.ISR, err = liveOf(&tx.ReadTx, r.Replicas); err != nil {
		return err
	}
	if err := elect(&tx.ReadTx, &r); err != nil {
		return err
	}
	if _, exists, err := tx.Log(key); err != nil {
		return err
	} else if c.request.Diskless && !exists {
		if err := tx.CreateLog(key, store.NewLog(0, 0)); err != nil {
			return err
		}
	}
	return tx.PutRegistration(key, r)
}
