package model

import (
	"fmt"
	"maps"
	"slices"
)

const brokers = 4

// brokerNumber is 1 to brokers, or one more: that never registers.
func (g *Gen) brokerNumber() int32 {
	if g.one(40) {
		return brokers + 1
	}
	return int32(1 + g.r.Intn(brokers))
}

// registerBroker has a broker start, again under its incarnation at times.
func (g *Gen) registerBroker(m *Model) any {
	r := registerBroker{ID: int32(1 + g.r.Intn(brokers)), Endpoints: []string{"b:1"}, Clean: !g.one(3)}
	if b := m.brokers[r.ID]; b != nil && g.one(4) {
		r.Incarnation = b.incarnation
	} else {
		r.Incarnation = fmt.Sprint("i-", m.lastEpoch)
	}
	if g.one(60) {
		r.Incarnation = ""
	}
	return map[string]any{"broker_id": r.ID, "incarnation_id": r.Incarnation, "endpoints": r.Endpoints, "clean_shutdown": r.Clean}
}

func (g *Gen) fenceBroker(*Model) any { return map[string]int32{"broker_id": g.brokerNumber()} }

func (g *Gen) heartbeat(m *Model) any {
	r := brokerID{g.brokerNumber(), 1}
	if b := m.brokers[r.ID]; b != nil {
		r.Epoch = b.epoch
		if g.one(10) {
			r.Epoch--
		}
	}
	return r
}

// classicTopic is one of few ids, with its name, that only register-partitions takes at first.
func (g *Gen) classicTopic() (topicID, string) {
	n := g.r.Intn(2)
	return topicID(fmt.Sprintf("00000000-0000-4000-8000-%012x", topicIDs+1+n)), fmt.Sprint("c-", n)
}

func (g *Gen) registerPartitions(m *Model) any {
	r := registerPartitions{TopicID: g.topicID(), Name: g.topicName(), Partitions: []registerPartition{}, Diskless: g.one(2), Config: map[string]string{}}
	if !g.one(3) {
		r.TopicID, r.Name = g.classicTopic()
		r.Diskless = g.one(20)
	}
	t := m.topics[r.TopicID]
	if t != nil && !g.one(8) {
		r.Name, r.Diskless = t.name, t.origin == diskless
	}
	for p := range partition(g.r.Intn(partitions + 1)) {
		asked := registerPartition{p, g.replicas()}
		if t != nil && t.parts[p] != nil && !g.one(6) {
			asked.Replicas = t.parts[p].replicas
		}
		r.Partitions = append(r.Partitions, asked)
	}
	if t == nil && !g.one(5) {
		r.Config["remote.storage.enable"] = "true"
	}
	if g.one(5) {
		r.Config["unclean.leader.election.enable"] = pick(g, "true", "false", "false", "false")
	}
	return r
}

// replicas is one to three brokers in any order, and none or one twice at times.
func (g *Gen) replicas() []int32 {
	if g.one(60) {
		return pick(g, []int32{}, []int32{1, 1})
	}
	ids := []int32{}
	for _, i := range g.r.Perm(brokers)[:1+g.r.Intn(3)] {
		ids = append(ids, int32(1+i))
	}
	return ids
}

// registered names mostly a partition that is registered.
func (g *Gen) registered(m *Model) (target, *registration) {
	var known []target
	for _, id := range slices.Sorted(maps.Keys(m.topics)) {
		for _, p := range slices.Sorted(maps.Keys(m.topics[id].parts)) {
			known = append(known, target{id, p})
		}
	}
	at := target{g.topicID(), partition(g.r.Intn(partitions + 1))}
	if len(known) > 0 && !g.one(20) {
		at = pick(g, known...)
	}
	if t := m.topics[at.TopicID]; t != nil && t.parts[at.Partition] != nil {
		return at, t.parts[at.Partition]
	}
	return at, &registration{}
}

// leader is mostly the one that a registration has, under its epoch.
func (g *Gen) leader(r *registration) leaderRef {
	l := leaderRef{r.leader, r.leaderEpoch}
	if g.one(8) {
		l.Broker = g.brokerNumber()
	}
	if g.one(8) {
		l.LeaderEpoch += int32(g.r.Intn(3)) - 1
	}
	return l
}

func (g *Gen) alterPartition(m *Model) any {
	at, r := g.registered(m)
	q := alterPartition{at, g.leader(r), r.partEpoch, []isrMember{}}
	if g.one(8) {
		q.PartEpoch--
	}
	ids, all := slices.Clone(r.replicas), !g.one(3)
	if all {
		ids = m.live(ids)
	}
	for _, id := range ids {
		if (all || id == r.leader || g.one(2)) && m.brokers[id] != nil {
			q.ISR = append(q.ISR, isrMember{id, m.brokers[id].epoch - int64(g.r.Intn(12)/11)})
		}
	}
	return q
}

func (g *Gen) electLeader(m *Model) any {
	at, _ := g.registered(m)
	return electLeader{at, pick(g, "preferred", "unclean")}
}

func (g *Gen) beginSwitch(m *Model) any {
	if id, _ := g.classicTopic(); !g.one(3) {
		return map[string]topicID{"topic_id": id}
	}
	at, _ := g.registered(m)
	return map[string]topicID{"topic_id": at.TopicID}
}

func (g *Gen) commitSeal(m *Model) any {
	return sealRequest{some(g, func() commitSeal {
		at, r := g.registered(m)
		q := commitSeal{at, g.leader(r), g.upTo(5), g.upTo(30), []producerEntry{}}
		if r.seal >= 0 && g.one(2) {
			q.leaderRef, q.Offset = leaderRef{r.sealedBy, r.sealEpoch}, r.seal
		}
		if g.one(3) {
			q.Producers = g.producerEntries()
		}
		return q
	})}
}

func (g *Gen) commitPrefix(m *Model) any {
	return prefixRequest{some(g, func() commitPrefix {
		at, r := g.registered(m)
		return commitPrefix{at, g.leader(r), g.upTo(max(0, r.seal)), max(-1, r.seal) - g.upTo(2)}
	})}
}

func (g *Gen) override(m *Model) any {
	at, r := g.registered(m)
	for range 3 { // mostly one that is in the switch
		if r.seal != noSwitch && !r.flag {
			break
		}
		at, r = g.registered(m)
	}
	start := g.upTo(3)
	end := start + g.upTo(40)
	between := start + g.upTo(end-start)
	return override{at, pick(g, -1, -2, -3, between, between, between, max(-1, r.seal), max(-1, r.seal-1)), start, end, g.one(3), g.one(3)}
}

func (g *Gen) describePartitions(m *Model) any {
	return targets{some(g, func() target { at, _ := g.registered(m); return at })}
}
