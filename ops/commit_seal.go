package ops

import "github.com/cpnode/cpnode/store"

// CommitSealRequest commits the seals of partitions that are switched: from where on
// diskless storage owns them.
type CommitSealRequest struct {
	Requests []CommitSeal `json:"requests"`
}

// CommitSeal is what the leader of one partition found when it had sealed its log.
type CommitSeal struct {
	TopicID             store.TopicID   `json:"topic_id"`
	Partition           int32           `json:"partition" min:"0"`
	BrokerID            int32           `json:"broker_id"`
	LeaderEpoch         int32           `json:"leader_epoch"`
	LogStartOffset      int64           `json:"log_start_offset"`
	DisklessStartOffset int64           `json:"diskless_start_offset" doc:"The seal: the end of the sealed log."`
	ProducerStates      []ProducerState `json:"producer_states" default:"[]" doc:"Remembered batches, oldest first for each producer."`
}

// CommitSealResponse answers each partition in the order of the request.
type CommitSealResponse struct {
	Responses []CommittedSeal `json:"responses"`
}

// CommittedSeal is the answer for one partition.
type CommittedSeal struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
}

// Validate bounds the request.
func (r *CommitSealRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// maxElements: the producers of a partition are bounded by the entry that must hold them
// all, and not by their number.
func (*CommitSealRequest) maxElements(lim Limits) int { return lim.SealEntryBytes / leastProducerBytes }

// leastProducerBytes is what a producer state takes in an entry: an array of six integers.
const leastProducerBytes = 7

// Begin logs entries of about s.ItemRows logs and producer states; the producers of one
// partition are never split.
func (r *CommitSealRequest) Begin(s Settings) Steps {
	return &together[CommitSeal, CommittedSeal]{
		items: r.Requests, budget: s.ItemRows,
		weigh:   func(r *CommitSeal) int64 { return 1 + int64(len(r.ProducerStates)) },
		decide:  decideSeal,
		command: func(items []CommitSeal) Command { return &commitSeals{items} },
		respond: func(answers []CommittedSeal) any { return &CommitSealResponse{Responses: answers} },
	}
}

// commitSeals is the logged command.
type commitSeals struct{ items []CommitSeal }

func (*commitSeals) Op() string { return "commit-seal" }

func (c *commitSeals) fields(f *codec) {
	f.object(1, func(f *codec) {
		list(f, &c.items, 7, func(f *codec, r *CommitSeal) {
			f.topicID(&r.TopicID)
			f.int32(&r.Partition)
			f.int32(&r.BrokerID)
			f.int32(&r.LeaderEpoch)
			f.int64(&r.LogStartOffset)
			f.int64(&r.DisklessStartOffset)
			producerStates(f, &r.ProducerStates)
		})
	})
}

// Apply writes the registrations, logs and producers of the command.
func (c *commitSeals) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyTogether(tx, c.items, nowMs, decideSeal)
}

func decideSeal(tx *store.ReadTx, r *CommitSeal, nowMs int64) (change[CommittedSeal], error) {
	p, err := findPartition(tx, LogRef{r.TopicID, r.Partition})
	if err != nil {
		return change[CommittedSeal]{}, err
	}
	answer := CommittedSeal{r.TopicID, r.Partition, p.problem}
	if p.problem != None || r.is(&p.reg) {
		return change[CommittedSeal]{answer: answer}, nil
	}
	if answer.Error = r.check(&p); answer.Error != None {
		return change[CommittedSeal]{answer: answer}, nil
	}
	if _, exists, err := tx.Log(p.key); err != nil || exists {
		answer.Error = AlreadyInitialized
		return change[CommittedSeal]{answer: answer}, err
	}
	return change[CommittedSeal]{answer, func(tx *store.WriteTx) error { return r.write(tx, &p, nowMs) }}, nil
}

// is says whether this is the seal that was committed, whoever leads by now.
func (r *CommitSeal) is(reg *store.Registration) bool {
	return reg.ClassicToDisklessStartOffset >= 0 && reg.ClassicToDisklessStartOffset == r.DisklessStartOffset &&
		reg.SealedBy == r.BrokerID && r.BrokerID != noBroker && reg.DisklessLeaderEpoch == r.LeaderEpoch
}

func (r *CommitSeal) check(p *partition) Code {
	if code := p.checkLeader(r.BrokerID, r.LeaderEpoch); code != None {
		return code
	}
	if r.LogStartOffset < 0 || r.DisklessStartOffset < r.LogStartOffset || p.state() != StateSwitchPending {
		return InvalidRequest
	}
	return None
}

// write commits the seal and begins the diskless log. In one entry: between the two,
// nobody would own the offsets from the seal on.
func (r *CommitSeal) write(tx *store.WriteTx, p *partition, nowMs int64) error {
	reg := p.reg
	reg.ClassicToDisklessStartOffset, reg.DisklessLeaderEpoch, reg.SealedBy = r.DisklessStartOffset, r.LeaderEpoch, r.BrokerID
	if err := p.put(tx, reg, false); err != nil {
		return err
	}
	if err := tx.PutSealProducers(p.key, sealProducers(r.ProducerStates)); err != nil {
		return err
	}
	log := InitLog{TopicID: r.TopicID, Partition: r.Partition, LogStartOffset: r.LogStartOffset,
		DisklessStartOffset: r.DisklessStartOffset, ProducerStates: r.ProducerStates}
	return log.write(tx, nil, false, nowMs)
}

func sealProducers(states []ProducerState) []store.SealProducer {
	all := make([]store.SealProducer, len(states))
	for i, s := range states {
		all[i] = store.SealProducer{ProducerID: s.ProducerID, Epoch: s.ProducerEpoch, ProducerEntry: store.ProducerEntry{
			BaseSequence: s.BaseSequence, LastSequence: s.LastSequence, AssignedOffset: s.AssignedOffset, BatchMaxTimestamp: s.BatchMaxTimestamp}}
	}
	return all
}
