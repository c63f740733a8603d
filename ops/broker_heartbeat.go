package ops

// BrokerHeartbeatRequest says that a broker is alive. It is logged only when it
// unfences the broker.
type BrokerHeartbeatRequest struct {
	BrokerID    int32 `json:"broker_id" min:"0"`
	BrokerEpoch int64 `json:"broker_epoch" doc:"As register-broker answered it."`
}

// BrokerHeartbeatResponse says how the broker stands; SessionMs is -1 when it failed.
type BrokerHeartbeatResponse struct {
	Error     Code  `json:"error"`
	Fenced    bool  `json:"fenced" doc:"true when the broker must not serve."`
	SessionMs int64 `json:"session_ms" doc:"Milliseconds of silence after which the broker is fenced."`
}
