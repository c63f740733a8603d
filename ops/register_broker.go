package ops

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
