package ops

import "github.com/cpnode/cpnode/store"

// CommitPrefixInRemoteStorageRequest sets the flag of partitions whose complete classic
// prefix is in remote storage: from then on, only that copy is trusted.
type CommitPrefixInRemoteStorageRequest struct {
	Requests []CommitPrefix `json:"requests"`
}

// CommitPrefix is what the leader of one partition knows of its prefix.
type CommitPrefix struct {
	TopicID             store.TopicID `json:"topic_id"`
	Partition           int32         `json:"partition" min:"0"`
	BrokerID            int32         `json:"broker_id"`
	LeaderEpoch         int32         `json:"leader_epoch"`
	LogStartOffset      int64         `json:"log_start_offset"`
	HighestRemoteOffset int64         `json:"highest_remote_offset" doc:"Last offset that remote storage holds; -1 = none."`
}

// CommitPrefixInRemoteStorageResponse answers each partition in the order of the request.
type CommitPrefixInRemoteStorageResponse struct {
	Responses []CommittedPrefix `json:"responses"`
}

// CommittedPrefix is the answer for one partition.
type CommittedPrefix struct {
	TopicID   store.TopicID `json:"topic_id"`
	Partition int32         `json:"partition"`
	Error     Code          `json:"error"`
}

// Validate bounds the request.
func (r *CommitPrefixInRemoteStorageRequest) Validate(lim Limits) error {
	return atMost("requests", len(r.Requests), lim.Items)
}

// Begin logs entries of s.ItemRows partitions.
func (r *CommitPrefixInRemoteStorageRequest) Begin(s Settings) Steps {
	return &together[CommitPrefix, CommittedPrefix]{
		items: r.Requests, budget: s.ItemRows, weigh: weightOne[CommitPrefix],
		decide:  decidePrefix,
		command: func(items []CommitPrefix) Command { return &commitPrefixes{items} },
		respond: func(answers []CommittedPrefix) any { return &CommitPrefixInRemoteStorageResponse{Responses: answers} },
	}
}

// commitPrefixes is the logged command.
type commitPrefixes struct{ items []CommitPrefix }

func (*commitPrefixes) Op() string { return "commit-prefix-in-remote-storage" }

func (c *commitPrefixes) fields(f *codec) {
	f.object(1, func(f *codec) {
		list(f, &c.items, 6, func(f *codec, r *CommitPrefix) {
			f.topicID(&r.TopicID)
			f.int32(&r.Partition)
			f.int32(&r.BrokerID)
			f.int32(&r.LeaderEpoch)
			f.int64(&r.LogStartOffset)
			f.int64(&r.HighestRemoteOffset)
		})
	})
}

// Apply writes one registration an item of the command.
func (c *commitPrefixes) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyTogether(tx, c.items, nowMs, decidePrefix)
}

func decidePrefix(tx *store.ReadTx, r *CommitPrefix, _ int64) (change[CommittedPrefix], error) {
	p, err := findPartition(tx, LogRef{r.TopicID, r.Partition})
	if err != nil {
		return change[CommittedPrefix]{}, err
	}
	answer := CommittedPrefix{r.TopicID, r.Partition, p.problem}
	if p.problem != None || p.reg.ClassicPrefixInRemoteStorage {
		return change[CommittedPrefix]{answer: answer}, nil
	}
	if answer.Error = r.check(&p); answer.Error != None {
		return change[CommittedPrefix]{answer: answer}, nil
	}
	reg := p.reg
	reg.ClassicPrefixInRemoteStorage = true
	if reg.ISR, err = liveOf(tx, reg.Replicas); err != nil {
		return change[CommittedPrefix]{}, err
	}
	if err := elect(tx, &reg); err != nil {
		return change[CommittedPrefix]{}, err
	}
	return change[CommittedPrefix]{answer, func(tx *store.WriteTx) error { return p.put(tx, reg, true) }}, nil
}

func (r *CommitPrefix) check(p *partition) Code {
	if code := p.checkLeader(r.BrokerID, r.LeaderEpoch); code != None {
		return code
	}
	if p.state() != StatePrefixWaitingForUpload || p.topic.Config[keyRemoteStorageEnable] != "true" || !r.covers(p.reg.ClassicToDisklessStartOffset) {
		return InvalidRequest
	}
	return None
}

// covers says whether nothing below the seal is left that only local disks hold: remote
// storage has the last record below it, or there is none to have.
func (r *CommitPrefix) covers(seal int64) bool {
	return r.HighestRemoteOffset >= seal-1 || r.LogStartOffset >= seal
}
