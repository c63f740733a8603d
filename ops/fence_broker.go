package ops

import "github.com/cpnode/cpnode/store"

// FenceBrokerRequest takes a broker out of service, until its next heartbeat.
type FenceBrokerRequest struct {
	BrokerID int32 `json:"broker_id"`
}

// FenceBrokerResponse is the answer once all of its partitions have been seen to.
type FenceBrokerResponse struct {
	Error Code `json:"error"`
}

// Validate has nothing to check beyond the field's bounds.
func (*FenceBrokerRequest) Validate(Limits) error { return nil }

// Begin logs entries of s.BrokerRows partitions.
func (r *FenceBrokerRequest) Begin(s Settings) Steps {
	return fenceSteps(fenceBroker{r.BrokerID, anyEpoch, s.BrokerRows})
}

// FenceSilentBroker fences a broker whose session has ended, unless it has registered
// again since. The leader proposes it; its answer is a FenceBrokerResponse.
type FenceSilentBroker struct {
	BrokerID    int32
	BrokerEpoch int64 // of the session
}

// Validate takes any broker.
func (*FenceSilentBroker) Validate(Limits) error { return nil }

// Begin logs entries of s.BrokerRows partitions.
func (r *FenceSilentBroker) Begin(s Settings) Steps {
	return fenceSteps(fenceBroker{r.BrokerID, r.BrokerEpoch, s.BrokerRows})
}

func fenceSteps(c fenceBroker) Steps {
	return &walkSteps{
		id: c.brokerID, rows: c.rows, command: &c, follow: true,
		respond: func(w walked) any { return &FenceBrokerResponse{Error: w.answer} },
	}
}

// fenceBroker is the logged command.
type fenceBroker struct {
	brokerID int32
	epoch    int64 // that the broker must have, or anyEpoch
	rows     int64 // partitions that the entry may visit
}

func (*fenceBroker) Op() string { return "fence-broker" }

func (c *fenceBroker) fields(f *codec) {
	f.object(3, func(f *codec) {
		f.int32(&c.brokerID)
		f.int64(&c.epoch)
		f.int64(&c.rows)
	})
}

// Apply fences the broker, and visits the partitions of the command's budget.
func (c *fenceBroker) Apply(tx *store.WriteTx, _ int64) (any, error) {
	return applyBroker(tx, c, c.brokerID, c.rows)
}

func (c *fenceBroker) decide(tx *store.ReadTx) (brokerChange, error) {
	b, code, err := brokerAt(tx, c.brokerID, c.epoch)
	if err != nil || code != None || b.Fenced {
		return brokerChange{answer: code, epoch: -1}, err
	}
	b.Fenced, b.Walk = true, store.Walk{Kind: store.WalkFence}
	return brokerChange{answer: None, changes: true, becomes: b}, nil
}
