package ops

// UnfenceBrokerRequest puts a broker back into service.
type UnfenceBrokerRequest struct {
	BrokerID int32 `json:"broker_id" min:"0"`
}

// UnfenceBrokerResponse is the answer once all of its partitions have been seen to.
type UnfenceBrokerResponse struct {
	Error Code `json:"error"`
}
