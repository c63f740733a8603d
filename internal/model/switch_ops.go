package model

import (
	"maps"
	"slices"
)

type registerPartition struct {
	Partition partition `json:"partition"`
	Replicas  []int32   `json:"replicas"`
}

type registerPartitions struct {
	TopicID    topicID             `json:"topic_id"`
	Name       string              `json:"topic_name"`
	Partitions []registerPartition `json:"partitions"`
	Diskless   bool                `json:"diskless"`
	Config     map[string]string   `json:"config"`
}

func (m *Model) registerPartitions(r registerPartitions) (any, string) {
	for key, value := range r.Config {
		if !legalConfig(key, value) {
			return nil, invalidRequest
		}
	}
	problem := m.checkRegister(r)
	if problem == noError {
		m.register(r)
	}
	return plainAnswer{problem}, ""
}

func (r registerPartitions) origin() string {
	if r.Diskless {
		return diskless
	}
	return classic
}

func (m *Model) checkRegister(r registerPartitions) string {
	t := m.topics[r.TopicID]
	if t == nil {
		if problem := m.checkName(r.TopicID, r.Name); problem != noError {
			return problem
		}
		t = &topic{}
	} else if t.deletedAt != live || t.name != r.Name || t.origin != r.origin() || t.changesFixed(r.Config) {
		return invalidRequest
	}
	for _, p := range t.parts {
		if t.onlyLocal(p) && r.Config["unclean.leader.election.enable"] == "true" {
			return invalidRequest
		}
	}
	seen := map[partition]bool{}
	for _, asked := range r.Partitions {
		p := t.parts[asked.Partition]
		if int(asked.Partition) >= m.cfg.MaxPartitionsPerTopic || seen[asked.Partition] || !unique(asked.Replicas) || p != nil && !slices.Equal(p.replicas, asked.Replicas) {
			return invalidRequest
		}
		seen[asked.Partition] = true
	}
	return noError
}

// unique says that ids are some and none twice.
func unique(ids []int32) bool {
	seen := map[int32]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	return len(ids) > 0 && len(seen) == len(ids)
}

func (m *Model) register(r registerPartitions) {
	t := m.topics[r.TopicID]
	if t == nil {
		if len(r.Partitions) == 0 {
			return
		}
		t = m.addTopic(r.TopicID, r.Name)
		t.origin = r.origin()
	}
	m.mergeConfig(t, r.Config)
	for _, asked := range r.Partitions {
		if t.parts[asked.Partition] != nil {
			continue
		}
		p := &registration{replicas: asked.Replicas, isr: m.live(asked.Replicas), leader: nobody, seal: noSwitch, sealEpoch: -1, sealedBy: nobody}
		p.leader = m.elected(p, p.isr)
		t.parts[asked.Partition] = p
		if r.Diskless && t.logs[asked.Partition] == nil {
			t.logs[asked.Partition] = &log{remoteStart: none, producers: map[int64]*producer{}}
		}
		m.changed = true
	}
}

type isrMember struct {
	ID    int32 `json:"broker_id"`
	Epoch int64 `json:"broker_epoch"`
}

type leaderRef struct {
	Broker      int32 `json:"broker_id"`
	LeaderEpoch int32 `json:"leader_epoch"`
}

func (l leaderRef) check(r *registration) string {
	switch {
	case l.LeaderEpoch > r.leaderEpoch:
		return "NOT_CONTROLLER"
	case l.LeaderEpoch < r.leaderEpoch:
		return "FENCED_LEADER_EPOCH"
	case l.Broker != r.leader || l.Broker == nobody:
		return invalidRequest
	}
	return noError
}

type alterPartition struct {
	target
	leaderRef
	PartEpoch int32       `json:"partition_epoch"`
	ISR       []isrMember `json:"new_isr"`
}

func (m *Model) alterPartition(q alterPartition) (any, string) {
	t, r, problem := m.registered(q.target)
	if problem == noError {
		problem = q.check(r)
	}
	if problem != noError {
		return plainAnswer{problem}, ""
	}
	var ids []int32
	eligible := true
	for _, member := range q.ISR {
		b := m.brokers[member.ID]
		eligible = eligible && b != nil && !b.fenced && b.epoch == member.Epoch && slices.Contains(r.replicas, member.ID)
		ids = append(ids, member.ID)
	}
	switch {
	case q.PartEpoch != r.partEpoch:
		problem = "INVALID_UPDATE_VERSION"
	case t.isDiskless(r):
		problem = invalidRequest
	case !eligible:
		problem = "INELIGIBLE_REPLICA"
	case !unique(ids) || !slices.Contains(ids, r.leader):
		problem = invalidRequest
	case len(ids) != len(r.isr) || slices.ContainsFunc(ids, func(id int32) bool { return !slices.Contains(r.isr, id) }):
		m.become(r, ids, r.leader, false)
	}
	return plainAnswer{problem}, ""
}

type electLeader struct {
	target
	Election string `json:"election"`
}

func (m *Model) electLeader(q electLeader) (any, string) {
	if q.Election != "preferred" && q.Election != "unclean" {
		return nil, invalidRequest
	}
	t, r, problem := m.registered(q.target)
	switch {
	case problem != noError:
	case q.Election == "preferred":
		problem = m.electPreferred(r)
	default:
		problem = m.electUnclean(t, r)
	}
	return plainAnswer{problem}, ""
}

func (m *Model) electPreferred(r *registration) string {
	switch first := r.replicas[0]; {
	case r.leader == first:
		return "ELECTION_NOT_NEEDED"
	case !slices.Contains(m.live(r.isr), first):
		return "PREFERRED_LEADER_NOT_AVAILABLE"
	default:
		m.become(r, r.isr, first, false)
	}
	return noError
}

func (m *Model) electUnclean(t *topic, r *registration) string {
	members := m.live(r.replicas)
	allowed := t.isDiskless(r) || r.seal == noSwitch && t.config["unclean.leader.election.enable"] == "true"
	switch {
	case r.leader != nobody:
		return "ELECTION_NOT_NEEDED"
	case len(members) == 0 || !allowed:
		return "ELIGIBLE_LEADERS_NOT_AVAILABLE"
	case t.isDiskless(r):
		m.become(r, members, members[0], false)
	default:
		m.become(r, members[:1], members[0], false)
	}
	return noError
}

func (m *Model) beginSwitch(q target) (any, string) {
	t := m.topics[q.TopicID]
	if t == nil || t.deletedAt != live {
		return plainAnswer{"UNKNOWN_TOPIC_ID"}, ""
	}
	var begun []*registration
	ready := t.config["unclean.leader.election.enable"] != "true" && t.config["remote.storage.enable"] == "true"
	for _, r := range t.parts {
		if r.seal == noSwitch {
			begun = append(begun, r)
			ready = ready && r.leader != nobody && len(r.isr) == len(r.replicas)
		}
	}
	if t.origin != classic || len(t.parts) == 0 || len(begun) > 0 && !ready {
		return plainAnswer{invalidRequest}, ""
	}
	for _, r := range begun {
		r.seal = pending
		m.become(r, r.isr, r.leader, true)
		t.config["diskless.enable"] = "true"
	}
	return plainAnswer{noError}, ""
}

type commitSeal struct {
	target
	leaderRef
	LogStart  int64           `json:"log_start_offset"`
	Offset    int64           `json:"diskless_start_offset"`
	Producers []producerEntry `json:"producer_states"`
}

type sealRequest struct {
	Requests []commitSeal `json:"requests"`
}

func (m *Model) commitSeal(r sealRequest) (any, string) {
	return each(r.Requests, func(q commitSeal) itemAnswer {
		t, p, problem := m.registered(q.target)
		if problem != noError || p.seal >= 0 && p.seal == q.Offset && p.sealedBy == q.Broker && q.Broker != nobody && p.sealEpoch == q.LeaderEpoch {
			return itemAnswer{q.target, problem}
		}
		problem = q.check(p)
		switch {
		case problem != noError:
		case q.LogStart < 0 || q.Offset < q.LogStart || p.seal != pending:
			problem = invalidRequest
		case t.logs[q.Partition] != nil:
			problem = alreadyInitialized
		default:
			p.seal, p.sealEpoch, p.sealedBy, p.producers = q.Offset, q.LeaderEpoch, q.Broker, q.Producers
			m.become(p, p.isr, p.leader, false)
			m.initLog(initLog{target: q.target, Name: t.name, LogStart: q.LogStart, DisklessStart: q.Offset, Producers: q.Producers})
		}
		return itemAnswer{q.target, problem}
	}), ""
}

type commitPrefix struct {
	target
	leaderRef
	LogStart int64 `json:"log_start_offset"`
	Remote   int64 `json:"highest_remote_offset"`
}

type prefixRequest struct {
	Requests []commitPrefix `json:"requests"`
}

func (m *Model) commitPrefix(r prefixRequest) (any, string) {
	return each(r.Requests, func(q commitPrefix) itemAnswer {
		t, p, problem := m.registered(q.target)
		if problem != noError || p.flag {
			return itemAnswer{q.target, problem}
		}
		problem = q.check(p)
		covered := q.Remote >= p.seal-1 || q.LogStart >= p.seal
		switch {
		case problem != noError:
		case p.seal < 0 || t.config["remote.storage.enable"] != "true" || !covered:
			problem = invalidRequest
		default:
			p.flag = true
			isr := m.live(p.replicas)
			m.become(p, isr, m.elected(p, isr), true)
		}
		return itemAnswer{q.target, problem}
	}), ""
}

type override struct {
	target
	Seal  int64 `json:"seal_offset"`
	Start int64 `json:"log_start_offset"`
	End   int64 `json:"log_end_offset"`
	Clear bool  `json:"clear_producer_states"`
	Dry   bool  `json:"dry_run"`
}

type overrideAnswer struct {
	Error      string        `json:"error"`
	Unreadable []offsetRange `json:"unreadable,omitempty"`
}

type offsetRange struct {
	From int64 `json:"from_offset"`
	To   int64 `json:"to_offset"`
}

func (m *Model) overrideSwitch(q override) (any, string) {
	t, p, problem := m.registered(q.target)
	if problem == noError {
		problem = q.check(t, p)
	}
	if problem != noError {
		return overrideAnswer{Error: problem}, ""
	}
	answer := overrideAnswer{Error: noError}
	end := q.End
	if p.seal >= 0 {
		end = min(end, p.seal)
	}
	if q.Dry && q.Seal >= 0 && q.Seal < end {
		answer.Unreadable = []offsetRange{{q.Seal, end}}
	}
	if !q.Dry {
		m.override(t, p, q)
	}
	return answer, ""
}

func (q override) check(t *topic, p *registration) string {
	inSwitch := t.origin == classic && t.config["diskless.enable"] == "true" && t.config["unclean.leader.election.enable"] != "true"
	seals := q.Seal >= 0 && !p.flag && q.Start >= 0 && q.Start <= q.Seal && q.Seal <= q.End && (p.seal < 0 || q.Seal <= p.seal)
	if inSwitch && (seals || (q.Seal == noSwitch || q.Seal == pending) && p.seal < 0) {
		return noError
	}
	return invalidRequest
}

func (m *Model) override(t *topic, p *registration, q override) {
	forgets := q.Clear && len(p.producers) > 0
	if q.Seal == p.seal && q.Seal != pending && !forgets {
		return
	}
	if q.Seal != p.seal {
		p.sealedBy = nobody
		if q.Seal >= 0 && p.seal < 0 {
			p.sealEpoch = p.leaderEpoch
		}
	}
	p.seal = q.Seal
	m.become(p, p.isr, p.leader, q.Seal < 0)
	if q.Seal < 0 {
		if !slices.ContainsFunc(slices.Collect(maps.Values(t.parts)), func(r *registration) bool { return r.seal != noSwitch }) {
			t.config["diskless.enable"] = "false"
		}
		return
	}
	m.followSeal(t, p, q, forgets)
}

// followSeal has the log begin at the seal, and forget the producers of the one before.
func (m *Model) followSeal(t *topic, p *registration, q override, forgets bool) {
	l := t.logs[q.Partition]
	if l == nil {
		t.logs[q.Partition] = &log{start: q.Start, highWatermark: q.Seal, disklessStart: q.Seal, remoteStart: none, producers: map[int64]*producer{}}
		return
	}
	l.disklessStart = q.Seal
	if forgets {
		for _, s := range p.producers {
			delete(l.producers, s.ProducerID)
		}
		p.producers = nil
	}
}
