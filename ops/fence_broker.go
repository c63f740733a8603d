package ops

// FenceBrokerRequest takes a broker out of service, until its next heartbeat.
type FenceBrokerRequest struct {
	BrokerID int32 `json:"broker_id" min:"0"`
}

// FenceBrokerResponse is the answer once all of its partitions have been seen to.
type FenceBrokerResponse struct {
	Error Code `json:"error"`
}
