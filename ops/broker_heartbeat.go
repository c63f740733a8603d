package ops

import "github.com/cpnode/cpnode/store"

// BrokerHeartbeatRequest says that a broker is alive. It is logged only when it
// unfences the broker.
type BrokerHeartbeatRequest struct {
	BrokerID    int32 `json:"broker_id"`
	BrokerEpoch int64 `json:"broker_epoch" doc:"As register-broker answered it."`
}

// BrokerHeartbeatResponse says how the broker stands; SessionMs is -1 when it failed.
type BrokerHeartbeatResponse struct {
	Error     Code  `json:"error"`
	Fenced    bool  `json:"fenced" doc:"true when the broker must not serve."`
	SessionMs int64 `json:"session_ms" doc:"Milliseconds of silence after which the broker is fenced."`
}

// Validate has nothing to check beyond the fields' bounds.
func (*BrokerHeartbeatRequest) Validate(Limits) error { return nil }

// Begin logs an entry only for a broker that is fenced, and then as unfence-broker does.
func (r *BrokerHeartbeatRequest) Begin(s Settings) Steps {
	epoch := max(0, r.BrokerEpoch) // which no broker has, as a negative one: that may not be taken for anyEpoch
	return &walkSteps{
		id: r.BrokerID, rows: s.BrokerRows, command: &heartbeat{unfenceBroker{r.BrokerID, epoch, s.BrokerRows}},
		respond: func(w walked) any {
			if w.answer != None {
				return &BrokerHeartbeatResponse{Error: w.answer, Fenced: true, SessionMs: -1}
			}
			return &BrokerHeartbeatResponse{Error: None, SessionMs: s.BrokerSessionMs}
		},
	}
}

// heartbeat is the logged command: an unfencing of the broker's own.
type heartbeat struct{ unfence unfenceBroker }

func (*heartbeat) Op() string { return "broker-heartbeat" }

func (c *heartbeat) fields(f *codec) { c.unfence.fields(f) }

// Apply unfences the broker, and visits the partitions of the command's budget.
func (c *heartbeat) Apply(tx *store.WriteTx, _ int64) (any, error) {
	return applyBroker(tx, c, c.unfence.brokerID, c.unfence.rows)
}

func (c *heartbeat) decide(tx *store.ReadTx) (brokerChange, error) { return c.unfence.decide(tx) }
