package model

import (
	"maps"
	"slices"
)

// The state of brokers and of the partitions that they keep replicas of. A change of a
// broker reaches all of its partitions at once here.

type broker struct {
	epoch       int64
	incarnation string
	fenced      bool
}

// registration is a partition with replicas. seal is noSwitch, pending or the offset.
type registration struct {
	replicas, isr          []int32
	leader                 int32
	leaderEpoch, partEpoch int32
	seal                   int64
	flag                   bool
	sealEpoch, sealedBy    int32
	producers              []producerEntry
}

const (
	noSwitch int64 = -1
	pending  int64 = -2
	nobody   int32 = -1
)

// live is those of ids that are registered and not fenced.
func (m *Model) live(ids []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { b := m.brokers[id]; return b == nil || b.fenced })
}

// state names where the complete classic prefix is.
func (t *topic) state(r *registration) string {
	switch {
	case t.origin == diskless:
		return "BORN_DISKLESS"
	case r.seal == noSwitch:
		return "CLASSIC"
	case r.seal == pending:
		return "SWITCH_PENDING"
	case r.flag:
		return "PREFIX_IN_REMOTE_STORAGE"
	}
	return "PREFIX_WAITING_FOR_UPLOAD"
}

func (t *topic) isDiskless(r *registration) bool { return t.origin == diskless || r.flag }

// onlyLocal says that a switch has begun and no copy of the prefix but the ISR's is trusted.
func (t *topic) onlyLocal(r *registration) bool {
	return t.origin == classic && r.seal != noSwitch && !r.flag
}

// registered returns the partition, or why there is none.
func (m *Model) registered(at target) (*topic, *registration, string) {
	t := m.topics[at.TopicID]
	if t == nil || t.deletedAt != live {
		return nil, nil, "UNKNOWN_TOPIC_ID"
	}
	if r := t.parts[at.Partition]; r != nil {
		return t, r, noError
	}
	return nil, nil, unknownPartition
}

// become changes a registration: a partition epoch each time, a leader epoch for a new leader or when asked.
func (m *Model) become(r *registration, isr []int32, leader int32, newEpoch bool) {
	if newEpoch || leader != r.leader {
		r.leaderEpoch++
	}
	r.partEpoch++
	r.isr = slices.DeleteFunc(slices.Clone(r.replicas), func(id int32) bool { return !slices.Contains(isr, id) })
	r.leader = leader
	m.changed = true
}

// elected is the leader of an ISR: the present one, else the first that lives.
func (m *Model) elected(r *registration, isr []int32) int32 {
	ordered := slices.DeleteFunc(slices.Clone(r.replicas), func(id int32) bool { return !slices.Contains(isr, id) })
	members := m.live(ordered)
	switch {
	case slices.Contains(members, r.leader):
		return r.leader
	case len(members) > 0:
		return members[0]
	}
	return nobody
}

// visit has every partition with a replica of the broker take the ISR that want gives it.
func (m *Model) visit(id int32, want func(*topic, *registration, []int32) []int32) {
	for _, t := range m.topics {
		for _, r := range t.parts {
			if !slices.Contains(r.replicas, id) {
				continue
			}
			others := slices.DeleteFunc(slices.Clone(r.isr), func(other int32) bool { return other == id })
			isr := want(t, r, others)
			if leader := m.elected(r, isr); len(isr) != len(r.isr) || leader != r.leader {
				m.become(r, isr, leader, false)
			}
		}
	}
}

func (m *Model) takeOut(id int32, wipe bool) {
	m.brokers[id].fenced, m.changed = true, true
	m.visit(id, func(t *topic, r *registration, others []int32) []int32 {
		if len(m.live(others)) > 0 || wipe && !t.isDiskless(r) {
			return others
		}
		return r.isr
	})
}

func (m *Model) unfence(id int32) {
	m.brokers[id].fenced, m.changed = false, true
	m.visit(id, func(t *topic, r *registration, others []int32) []int32 {
		if t.isDiskless(r) {
			return append(others, id)
		}
		return r.isr
	})
}

type registerBroker struct {
	ID          int32    `json:"broker_id"`
	Incarnation string   `json:"incarnation_id"`
	Endpoints   []string `json:"endpoints"`
	Clean       bool     `json:"clean_shutdown"`
}

type registeredBroker struct {
	Error string `json:"error"`
	Epoch int64  `json:"broker_epoch"`
}

func (m *Model) registerBroker(r registerBroker) (any, string) {
	old := m.brokers[r.ID]
	switch {
	case r.Incarnation == "":
		return nil, invalidRequest
	case old != nil && old.incarnation == r.Incarnation:
		return registeredBroker{noError, old.epoch}, ""
	case old != nil && !old.fenced:
		return registeredBroker{"DUPLICATE_BROKER_REGISTRATION", none}, ""
	}
	m.lastEpoch++
	m.brokers[r.ID] = &broker{m.lastEpoch, r.Incarnation, true}
	m.changed = true
	if !r.Clean {
		m.takeOut(r.ID, true)
	}
	return registeredBroker{noError, m.lastEpoch}, ""
}

type brokerID struct {
	ID    int32 `json:"broker_id"`
	Epoch int64 `json:"broker_epoch"` // broker-heartbeat only
}

type plainAnswer struct {
	Error string `json:"error"`
}

func (m *Model) fenceBroker(r brokerID) (any, string) {
	b := m.brokers[r.ID]
	if b == nil {
		return plainAnswer{"BROKER_ID_NOT_REGISTERED"}, ""
	}
	if !b.fenced {
		m.takeOut(r.ID, false)
	}
	return plainAnswer{noError}, ""
}

func (m *Model) unfenceBroker(r brokerID) (any, string) {
	b := m.brokers[r.ID]
	if b == nil {
		return plainAnswer{"BROKER_ID_NOT_REGISTERED"}, ""
	}
	if b.fenced {
		m.unfence(r.ID)
	}
	return plainAnswer{noError}, ""
}

type heartbeatAnswer struct {
	Error   string `json:"error"`
	Fenced  bool   `json:"fenced"`
	Session int64  `json:"session_ms"`
}

func (m *Model) brokerHeartbeat(r brokerID) (any, string) {
	b := m.brokers[r.ID]
	switch {
	case b == nil:
		return heartbeatAnswer{"BROKER_ID_NOT_REGISTERED", true, none}, ""
	case b.epoch != r.Epoch:
		return heartbeatAnswer{"STALE_BROKER_EPOCH", true, none}, ""
	case b.fenced:
		m.unfence(r.ID)
	}
	return heartbeatAnswer{noError, false, 9000}, ""
}

type described struct {
	target
	Error      string          `json:"error"`
	Name       string          `json:"topic_name"`
	State      string          `json:"state"`
	Replicas   []int32         `json:"replicas"`
	ISR        []int32         `json:"isr"`
	Leader     int32           `json:"leader"`
	LeaderEp   int32           `json:"leader_epoch"`
	PartEpoch  int32           `json:"partition_epoch"`
	Seal       int64           `json:"classic_to_diskless_start_offset"`
	Flag       bool            `json:"classic_prefix_in_remote_storage"`
	SealEpoch  int32           `json:"diskless_leader_epoch"`
	Producers  []producerEntry `json:"producer_states"`
	Advertised []int32         `json:"advertised_replicas"`
}

func (m *Model) describePartitions(r targets) (any, string) {
	return each(r.Requests, func(at target) described {
		t, p, problem := m.registered(at)
		if problem != noError {
			return described{at, problem, "", "", []int32{}, []int32{}, nobody, -1, -1, noSwitch, false, -1, []producerEntry{}, []int32{}}
		}
		return described{at, noError, t.name, t.state(p), p.replicas, listed(p.isr), p.leader, p.leaderEpoch, p.partEpoch,
			p.seal, p.flag, p.sealEpoch, listed(p.producers), listed(m.advertised(t, p))}
	}), ""
}

func (m *Model) advertised(t *topic, r *registration) []int32 {
	switch {
	case t.state(r) == "CLASSIC":
		return r.isr
	case t.onlyLocal(r):
		return m.live(r.isr)
	case t.origin == diskless && t.config["remote.storage.enable"] != "true":
		return m.live(slices.Sorted(maps.Keys(m.brokers)))
	}
	return m.live(r.replicas)
}

// listed is a copy that is not nil.
func listed[T any](list []T) []T { return append([]T{}, list...) }
