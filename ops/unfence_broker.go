package ops

import "github.com/cpnode/cpnode/store"

// UnfenceBrokerRequest puts a broker back into service.
type UnfenceBrokerRequest struct {
	BrokerID int32 `json:"broker_id"`
}

// UnfenceBrokerResponse is the answer once all of its partitions have been seen to.
type UnfenceBrokerResponse struct {
	Error Code `json:"error"`
}

// Validate has nothing to check beyond the field's bounds.
func (*UnfenceBrokerRequest) Validate(Limits) error { return nil }

// Begin logs entries of s.BrokerRows partitions.
func (r *UnfenceBrokerRequest) Begin(s Settings) Steps {
	return &walkSteps{
		id: r.BrokerID, rows: s.BrokerRows, command: &unfenceBroker{r.BrokerID, anyEpoch, s.BrokerRows}, follow: true,
		respond: func(w walked) any { return &UnfenceBrokerResponse{Error: w.answer} },
	}
}

// anyEpoch is for requests that name no broker epoch.
const anyEpoch = -1

// unfenceBroker is the logged command.
type unfenceBroker struct {
	brokerID int32
	epoch    int64 // that the broker must have, or anyEpoch
	rows     int64 // partitions that the entry may visit
}

func (*unfenceBroker) Op() string { return "unfence-broker" }

func (c *unfenceBroker) fields(f *codec) {
	f.object(3, func(f *codec) {
		f.int32(&c.brokerID)
		f.int64(&c.epoch)
		f.int64(&c.rows)
	})
}

// Apply unfences the broker, and visits the partitions of the command's budget.
func (c *unfenceBroker) Apply(tx *store.WriteTx, _ int64) (any, error) {
	return applyBroker(tx, c, c.brokerID, c.rows)
}

// decide lets a broker without its old disks leave all ISRs first: it could be elected
// otherwise, and be read instead of one that has the records.
func (c *unfenceBroker) decide(tx *store.ReadTx) (brokerChange, error) {
	b, code, err := brokerAt(tx, c.brokerID, c.epoch)
	switch {
	case err != nil || code != None:
		return brokerChange{answer: code, epoch: -1}, err
	case !b.Fenced:
		return brokerChange{answer: None, epoch: b.Epoch}, nil
	case b.Walk.Kind == store.WalkWipe:
		return brokerChange{notYet: true}, nil
	}
	b.Fenced, b.Walk = false, store.Walk{Kind: store.WalkUnfence}
	return brokerChange{answer: None, changes: true, becomes: b}, nil
}

// brokerAt is the row of a broker, or why it is not the one with that epoch.
func brokerAt(tx *store.ReadTx, id int32, epoch int64) (store.Broker, Code, error) {
	b, ok, err := tx.Broker(id)
	switch {
	case !ok:
		return b, BrokerIDNotRegistered, err
	case epoch != anyEpoch && epoch != b.Epoch:
		return b, StaleBrokerEpoch, nil
	}
	return b, None, nil
}
