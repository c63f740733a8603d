package ops

import (
	"slices"

	"github.com/cpnode/cpnode/store"
)

// noBroker stands where no broker did something.
const noBroker int32 = -1

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

// eachPartition calls fn for each registered partition of a live topic, in order,
// until it returns false.
func eachPartition(tx *store.ReadTx, id store.TopicID, fn func(*partition) bool) error {
	t, ok, err := tx.Topic(id)
	if err != nil || !ok || t.Deleted {
		return err
	}
	return tx.RegistrationsOfTopic(id, func(k store.LogKey, r *store.Registration) (bool, error) {
		return fn(&partition{key: k, topic: t, reg: *r, problem: None}), nil
	})
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

// checkLeader says whether a broker leads the partition under a leader epoch. Where
// there is no leader, no id that a request may carry is.
func (p *partition) checkLeader(broker, epoch int32) Code {
	switch {
	case epoch > p.reg.LeaderEpoch:
		return NotController
	case epoch < p.reg.LeaderEpoch:
		return FencedLeaderEpoch
	case broker != p.reg.Leader || broker == noBroker:
		return InvalidRequest
	}
	return None
}

// put writes what the registration has become. Every change has its partition epoch,
// and every change of leader a leader epoch; newEpoch asks for one without that.
func (p *partition) put(tx *store.WriteTx, r store.Registration, newEpoch bool) error {
	if newEpoch || r.Leader != p.reg.Leader {
		r.LeaderEpoch++
	}
	r.PartitionEpoch++
	return tx.PutRegistration(p.key, r)
}

// elect leaves the leader as it is while it is live and in the ISR; else it is the
// first live member of the ISR, in the order of the replicas, or nobody.
func elect(tx *store.ReadTx, r *store.Registration) error {
	live, err := liveOf(tx, r.ISR)
	switch {
	case err != nil || slices.Contains(live, r.Leader):
	case len(live) > 0:
		r.Leader = live[0]
	default:
		r.Leader = store.NoLeader
	}
	return err
}

// liveOf is those of brokers that are registered and not fenced, in their order.
func liveOf(tx *store.ReadTx, ids []int32) ([]int32, error) {
	live := []int32{}
	for _, id := range ids {
		b, ok, err := tx.Broker(id)
		if err != nil {
			return nil, err
		}
		if ok && !b.Fenced {
			live = append(live, id)
		}
	}
	return live, nil
}
