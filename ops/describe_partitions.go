package ops

import "github.com/cpnode/cpnode/store"

// DescribePartitionsRequest asks for registered partitions.
type DescribePartitionsRequest struct {
	Requests []LogRef `json:"requests"`
}

// DescribePartitionsResponse answers each partition in the order of the request.
type DescribePartitionsResponse struct {
	Responses []DescribedPartition `json:"responses"`
}

// DescribedPartition is one registration. When it does not exist, numbers are -1 and
// lists empty.
type DescribedPartition struct {
	TopicID   store.TopicID  `json:"topic_id"`
	Partition int32          `json:"partition"`
	Error     Code           `json:"error"`
	TopicName string         `json:"topic_name"`
	State     PartitionState `json:"state" doc:"Where the complete classic prefix is; empty when there is no registration."`

	Replicas       []int32 `json:"replicas" doc:"Broker ids, the preferred leader first."`
	ISR            []int32 `json:"isr" doc:"In the order of replicas."`
	Leader         int32   `json:"leader" doc:"-1 = none."`
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`

	ClassicToDisklessStartOffset int64           `json:"classic_to_diskless_start_offset" doc:">= 0: the seal, -1: no switch, -2: not sealed yet."`
	ClassicPrefixInRemoteStorage bool            `json:"classic_prefix_in_remote_storage"`
	DisklessLeaderEpoch          int32           `json:"diskless_leader_epoch" doc:"Leader epoch of the seal, -1 without."`
	ProducerStates               []ProducerState `json:"producer_states" doc:"As the seal brought them."`
	AdvertisedReplicas           []int32         `json:"advertised_replicas" doc:"What clients are told."`
}

// Validate bounds the request.
func (r *DescribePartitionsRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Query reads the brokers once, and two or three rows a partition. It stops at
// lim.AnswerRows producers over all partitions, without an error.
func (r *DescribePartitionsRequest) Query(tx *store.ReadTx, lim Limits) (any, error) {
	live, err := liveBrokers(tx)
	if err != nil {
		return nil, err
	}
	answer := &DescribePartitionsResponse{Responses: make([]DescribedPartition, len(r.Requests))}
	left := lim.AnswerRows
	for i, ref := range r.Requests {
		p, err := findPartition(tx, ref)
		if err != nil {
			return nil, err
		}
		d, err := p.describe(tx, live)
		if err != nil {
			return nil, err
		}
		d.ProducerStates = d.ProducerStates[:min(left, len(d.ProducerStates))]
		left -= len(d.ProducerStates)
		answer.Responses[i] = d
	}
	return answer, nil
}

func (p *partition) describe(tx *store.ReadTx, live []int32) (DescribedPartition, error) {
	d := DescribedPartition{
		TopicID: p.key.Topic, Partition: p.key.Partition, Error: p.problem,
		Replicas: []int32{}, ISR: []int32{}, Leader: -1, LeaderEpoch: -1, PartitionEpoch: -1,
		ClassicToDisklessStartOffset: -1, DisklessLeaderEpoch: -1, ProducerStates: []ProducerState{}, AdvertisedReplicas: []int32{},
	}
	if p.problem != None {
		return d, nil
	}
	r := &p.reg
	d.TopicName, d.State, d.Replicas, d.ISR = p.topic.Name, p.state(), r.Replicas, orEmpty(r.ISR)
	d.Leader, d.LeaderEpoch, d.PartitionEpoch = r.Leader, r.LeaderEpoch, r.PartitionEpoch
	d.ClassicToDisklessStartOffset, d.ClassicPrefixInRemoteStorage = r.ClassicToDisklessStartOffset, r.ClassicPrefixInRemoteStorage
	d.DisklessLeaderEpoch = r.DisklessLeaderEpoch
	d.AdvertisedReplicas = p.advertised(live)
	producers, err := tx.SealProducers(p.key)
	for _, s := range producers {
		d.ProducerStates = append(d.ProducerStates, ProducerState{ProducerID: s.ProducerID, ProducerEpoch: s.Epoch, BaseSequence: s.BaseSequence,
			LastSequence: s.LastSequence, AssignedOffset: s.AssignedOffset, BatchMaxTimestamp: s.BatchMaxTimestamp})
	}
	return d, err
}

// advertised is the replicas that clients are told of: those that can answer for what
// they ask.
func (p *partition) advertised(live []int32) []int32 {
	switch state := p.state(); {
	case state == StateClassic:
		return orEmpty(p.reg.ISR)
	case state.ClassicPrefixOnlyOnLocalDisks():
		return only(p.reg.ISR, live)
	case state == StateBornDiskless && p.topic.Config[keyRemoteStorageEnable] != "true":
		return orEmpty(live)
	}
	return only(p.reg.Replicas, live)
}
