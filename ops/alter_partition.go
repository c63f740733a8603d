package ops

import (
	"slices"

	"github.com/cpnode/cpnode/store"
)

// AlterPartitionRequest is a leader's wish to change the ISR of a partition whose
// records are on local disks.
type AlterPartitionRequest struct {
	TopicID        store.TopicID `json:"topic_id"`
	Partition      int32         `json:"partition" min:"0"`
	BrokerID       int32         `json:"broker_id" doc:"The leader."`
	LeaderEpoch    int32         `json:"leader_epoch"`
	PartitionEpoch int32         `json:"partition_epoch"`
	NewISR         []ISRMember   `json:"new_isr" doc:"All of it, the leader included."`
}

// ISRMember is a broker under the epoch that the leader knows of it.
type ISRMember struct {
	BrokerID    int32 `json:"broker_id"`
	BrokerEpoch int64 `json:"broker_epoch"`
}

// AlterPartitionResponse says whether the ISR is now the one asked for.
type AlterPartitionResponse struct {
	Error Code `json:"error"`
}

// Validate bounds the request.
func (r *AlterPartitionRequest) Validate(lim Limits) error {
	return atMost("new_isr", len(r.NewISR), lim.Items)
}

// Begin logs one entry.
func (r *AlterPartitionRequest) Begin(Settings) Steps {
	return &once[*AlterPartitionResponse]{command: &alterPartition{*r}}
}

// alterPartition is the logged command.
type alterPartition struct{ request AlterPartitionRequest }

func (*alterPartition) Op() string { return "alter-partition" }

func (c *alterPartition) fields(f *codec) {
	f.object(6, func(f *codec) {
		f.topicID(&c.request.TopicID)
		f.int32(&c.request.Partition)
		f.int32(&c.request.BrokerID)
		f.int32(&c.request.LeaderEpoch)
		f.int32(&c.request.PartitionEpoch)
		list(f, &c.request.NewISR, 2, func(f *codec, m *ISRMember) {
			f.int32(&m.BrokerID)
			f.int64(&m.BrokerEpoch)
		})
	})
}

// Apply writes one registration.
func (c *alterPartition) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *alterPartition) decide(tx *store.ReadTx, _ int64) (change[*AlterPartitionResponse], error) {
	p, err := findPartition(tx, LogRef{c.request.TopicID, c.request.Partition})
	if err != nil {
		return change[*AlterPartitionResponse]{}, err
	}
	code, err := c.check(tx, &p)
	answer := &AlterPartitionResponse{Error: code}
	r := p.reg
	r.ISR = only(r.Replicas, c.members())
	if err != nil || code != None || slices.Equal(r.ISR, p.reg.ISR) {
		return change[*AlterPartitionResponse]{answer: answer}, err
	}
	return change[*AlterPartitionResponse]{answer, func(tx *store.WriteTx) error { return p.put(tx, r, false) }}, nil
}

func (c *alterPartition) members() []int32 {
	ids := make([]int32, len(c.request.NewISR))
	for i, m := range c.request.NewISR {
		ids[i] = m.BrokerID
	}
	return ids
}

func (c *alterPartition) check(tx *store.ReadTx, p *partition) (Code, error) {
	r := &c.request
	if p.problem != None {
		return p.problem, nil
	}
	if code := p.checkLeader(r.BrokerID, r.LeaderEpoch); code != None {
		return code, nil
	}
	switch {
	case r.PartitionEpoch != p.reg.PartitionEpoch:
		return InvalidUpdateVersion, nil
	case p.state().Diskless(): // whose ISR is every live replica
		return InvalidRequest, nil
	}
	if eligible, err := c.eligible(tx, p); err != nil || !eligible {
		return IneligibleReplica, err
	}
	if ids := c.members(); !distinct(ids) || !slices.Contains(ids, p.reg.Leader) {
		return InvalidRequest, nil
	}
	return None, nil
}

// eligible says whether every member is a live replica under its present epoch. A
// broker that was away since the leader saw it may have lost what it had.
func (c *alterPartition) eligible(tx *store.ReadTx, p *partition) (bool, error) {
	for _, m := range c.request.NewISR {
		b, ok, err := tx.Broker(m.BrokerID)
		if err != nil || !ok || b.Fenced || b.Epoch != m.BrokerEpoch || !slices.Contains(p.reg.Replicas, m.BrokerID) {
			return false, err
		}
	}
	return true, nil
}
