package ops

import "github.com/cpnode/cpnode/store"

// AdvanceBroker goes on with the walk over the partitions of a broker, until it ends.
// Only leaders propose it, for the walks that an earlier one has left. It has no answer.
type AdvanceBroker struct{ BrokerID int32 }

// Validate takes any broker.
func (*AdvanceBroker) Validate(Limits) error { return nil }

// Begin logs entries of s.BrokerRows partitions, or none where there is no walk.
func (r *AdvanceBroker) Begin(s Settings) Steps {
	return &walkSteps{id: r.BrokerID, rows: s.BrokerRows, respond: func(walked) any { return nil }}
}

// UnfinishedWalks is the brokers with a walk that has not ended, by id.
func UnfinishedWalks(tx *store.ReadTx) ([]int32, error) {
	var ids []int32
	err := tx.Brokers(func(id int32, b *store.Broker) bool {
		if b.Walk.Kind != store.WalkNone {
			ids = append(ids, id)
		}
		return true
	})
	return ids, err
}

// advanceBroker is the logged command.
type advanceBroker struct {
	brokerID int32
	rows     int64 // partitions that the entry may visit
}

func (*advanceBroker) Op() string { return "advance-broker" }

func (c *advanceBroker) fields(f *codec) {
	f.object(2, func(f *codec) {
		f.int32(&c.brokerID)
		f.int64(&c.rows)
	})
}

// Apply visits the partitions of the command's budget.
func (c *advanceBroker) Apply(tx *store.WriteTx, _ int64) (any, error) {
	b, ok, err := tx.Broker(c.brokerID)
	if err != nil || !ok || b.Walk.Kind == store.WalkNone {
		return walked{}, err
	}
	more, err := walk(tx, c.brokerID, b, c.rows)
	return walked{more: more}, err
}
