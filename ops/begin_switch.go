package ops

import (
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// BeginSwitchRequest begins to turn a classic topic into a diskless one.
type BeginSwitchRequest struct {
	TopicID store.TopicID `json:"topic_id"`
}

// BeginSwitchResponse says whether every partition is in the switch now; Message says
// why not, and names the partition.
type BeginSwitchResponse struct {
	Error   Code   `json:"error"`
	Message string `json:"message,omitzero" doc:"Why not, for people."`
}

// WithoutMessage is the answer as a trace has it.
func (r *BeginSwitchResponse) WithoutMessage() any { return &BeginSwitchResponse{Error: r.Error} }

// Validate has nothing to check beyond the field's bounds.
func (*BeginSwitchRequest) Validate(Limits) error { return nil }

// Begin logs one entry for the whole topic.
func (r *BeginSwitchRequest) Begin(Settings) Steps {
	return &once[*BeginSwitchResponse]{command: &beginSwitch{*r}}
}

// beginSwitch is the logged command.
type beginSwitch struct{ request BeginSwitchRequest }

func (*beginSwitch) Op() string { return "begin-switch" }

func (c *beginSwitch) fields(f *codec) {
	f.object(1, func(f *codec) { f.topicID(&c.request.TopicID) })
}

// Apply writes the registrations of one topic, which register-partitions bounds.
func (c *beginSwitch) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *beginSwitch) decide(tx *store.ReadTx, _ int64) (change[*BeginSwitchResponse], error) {
	t, ok, err := tx.Topic(c.request.TopicID)
	switch {
	case err != nil:
		return change[*BeginSwitchResponse]{}, err
	case !ok || t.Deleted:
		return notBegun(UnknownTopicID, "there is no such topic")
	case t.Origin != store.OriginClassic:
		return notBegun(InvalidRequest, "the topic was born diskless")
	case t.Registrations == 0:
		return notBegun(InvalidRequest, "the topic has no partitions")
	}
	classic, problem, err := c.classic(tx)
	switch {
	case err != nil:
		return change[*BeginSwitchResponse]{}, err
	case len(classic) == 0: // all are in the switch
		return change[*BeginSwitchResponse]{answer: &BeginSwitchResponse{Error: None}}, nil
	case t.Config[keyUncleanElection] == "true":
		return notBegun(InvalidRequest, "the topic allows unclean election, which could lose the prefix")
	case t.Config[keyRemoteStorageEnable] != "true":
		return notBegun(InvalidRequest, "the topic has no remote storage to keep the prefix")
	case problem != "":
		return notBegun(InvalidRequest, problem)
	}
	return change[*BeginSwitchResponse]{&BeginSwitchResponse{Error: None}, func(tx *store.WriteTx) error {
		return c.write(tx, classic)
	}}, nil
}

func notBegun(code Code, why string) (change[*BeginSwitchResponse], error) {
	return change[*BeginSwitchResponse]{answer: &BeginSwitchResponse{Error: code, Message: why}}, nil
}

// classic is the partitions that are not in the switch yet, and what is wrong with the
// first that cannot be.
func (c *beginSwitch) classic(tx *store.ReadTx) (all []partition, problem string, err error) {
	err = eachPartition(tx, c.request.TopicID, func(p *partition) bool {
		if p.state() != StateClassic {
			return true
		}
		all = append(all, *p)
		switch {
		case problem != "":
		case p.reg.Leader == store.NoLeader:
			problem = fmt.Sprintf("partition %d has no leader", p.key.Partition)
		case len(p.reg.ISR) < len(p.reg.Replicas):
			problem = fmt.Sprintf("partition %d: of its replicas %v only %v are in sync", p.key.Partition, p.reg.Replicas, p.reg.ISR)
		}
		return true
	})
	return all, problem, err
}

func (c *beginSwitch) write(tx *store.WriteTx, classic []partition) error {
	for i := range classic {
		r := classic[i].reg
		r.ClassicToDisklessStartOffset = store.SwitchPending
		if err := classic[i].put(tx, r, true); err != nil {
			return err
		}
	}
	return setConfig(tx, c.request.TopicID, keyDisklessEnable, "true")
}

// setConfig sets one key of a topic's config.
func setConfig(tx *store.WriteTx, id store.TopicID, key, value string) error {
	t, _, err := tx.Topic(id)
	if err != nil {
		return err
	}
	config, changed := mergedConfig(t.Config, map[string]string{key: value})
	if !changed {
		return nil
	}
	t.Config = config
	return tx.PutTopic(id, t)
}
