package ops

import (
	"slices"

	"github.com/cpnode/cpnode/store"
)

// partition is a registration with its topic, as an operation on it finds them.
type partition struct {
	key     store.LogKey
	topic   store.Topic
	reg     store.Registration
	problem Code // None when there is a registration
}

// findPartition reads a partition of a live topic.
func findPartition(tx *store.ReadTx, ref LogRef) (partition, error) {
	p := partition{key: store.LogKey{Topic: ref.TopicID, Partition: ref.Partition}, problem: None}
	t, ok, err := tx.Topic(ref.TopicID)
	if err != nil || !ok || t.Deleted {
		p.problem = UnknownTopicID
		return p, err
	}
	p.topic = t
	if p.reg, ok, err = tx.Registration(p.key); !ok {
		p.problem = UnknownTopicOrPartition
	}
	return p, err
}

func (p *partition) state() PartitionState { return stateOf(&p.topic, &p.reg) }

// liveBrokers is the brokers that are not fenced, by id.
func liveBrokers(tx *store.ReadTx) ([]int32, error) {
	var live []int32
	err := tx.Brokers(func(id int32, b *store.Broker) bool {
		if !b.Fenced {
			live = append(live, id)
		}
		return true
	})
	return live, err
}

// only is those of ids that are in the set, in their order.
func only(ids, set []int32) []int32 {
	kept := []int32{}
	for _, id := range ids {
		if slices.Contains(set, id) {
			kept = append(kept, id)
		}
	}
	return kept
}
