package ops

import "github.com/cpnode/cpnode/store"

// RegisterBrokerRequest registers a broker that has started, fenced: its first
// heartbeat unfences it. The same incarnation again is a retry.
type RegisterBrokerRequest struct {
	BrokerID      int32    `json:"broker_id" min:"0"`
	IncarnationID string   `json:"incarnation_id" maxlen:"256" doc:"Made anew each time the broker starts; not empty."`
	Rack          string   `json:"rack" default:"" maxlen:"256"`
	Endpoints     []string `json:"endpoints" maxlen:"1024" doc:"Where clients and other brokers reach it, in a form of their own."`
	CleanShutdown bool     `json:"clean_shutdown" doc:"false: its disks may be gone, so it leaves the ISRs of partitions that need them."`
}

// RegisterBrokerResponse carries the epoch of the registration, -1 when it was refused.
type RegisterBrokerResponse struct {
	Error       Code  `json:"error"`
	BrokerEpoch int64 `json:"broker_epoch"`
}

// Validate wants an incarnation.
func (r *RegisterBrokerRequest) Validate(lim Limits) error {
	if r.IncarnationID == "" {
		return invalid("incarnation_id", "must not be empty")
	}
	return atMost("endpoints", len(r.Endpoints), lim.Items)
}

// Begin logs entries of s.BrokerRows partitions: one, where the broker's disks are whole.
func (r *RegisterBrokerRequest) Begin(s Settings) Steps {
	return &walkSteps{
		id: r.BrokerID, rows: s.BrokerRows, command: &registerBroker{*r, s.BrokerRows},
		respond: func(w walked) any { return &RegisterBrokerResponse{Error: w.answer, BrokerEpoch: w.epoch} },
	}
}

// registerBroker is the logged command.
type registerBroker struct {
	request RegisterBrokerRequest
	rows    int64 // partitions that the entry may visit
}

func (*registerBroker) Op() string { return "register-broker" }

func (c *registerBroker) fields(f *codec) {
	f.object(6, func(f *codec) {
		f.int32(&c.request.BrokerID)
		f.string(&c.request.IncarnationID)
		f.string(&c.request.Rack)
		f.strings(&c.request.Endpoints)
		f.bool(&c.request.CleanShutdown)
		f.int64(&c.rows)
	})
}

// Apply registers the broker, and visits the partitions of the command's budget.
func (c *registerBroker) Apply(tx *store.WriteTx, _ int64) (any, error) {
	return applyBroker(tx, c, c.request.BrokerID, c.rows)
}

// decide goes by the fenced mark: a session lives until the leader fences its broker.
func (c *registerBroker) decide(tx *store.ReadTx) (brokerChange, error) {
	r := &c.request
	old, known, err := tx.Broker(r.BrokerID)
	switch {
	case err != nil:
		return brokerChange{}, err
	case known && old.IncarnationID == r.IncarnationID:
		return brokerChange{answer: None, epoch: old.Epoch}, nil
	case known && !old.Fenced:
		return brokerChange{answer: DuplicateBroker, epoch: -1}, nil
	}
	b := store.Broker{IncarnationID: r.IncarnationID, Rack: r.Rack, Endpoints: r.Endpoints, Fenced: true, Walk: old.Walk}
	if !r.CleanShutdown { // from the beginning, wherever an earlier walk has come to
		b.Walk = store.Walk{Kind: store.WalkWipe}
	}
	return brokerChange{answer: None, changes: true, becomes: b, newEpoch: true}, nil
}
