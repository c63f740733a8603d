package store

import (
	"maps"
	"slices"
)

func (c *checker) checkBrokers() {
	epochs := map[int64]int32{}
	c.scan(bucketBrokers, brokerKeySize, func(key, payload []byte) error {
		b, err := decodeBroker(key, payload)
		if err != nil {
			return err
		}
		c.totals.Brokers++
		id := decodeBrokerKey(key)
		if _, twice := epochs[b.Epoch]; twice || b.Epoch < 1 || uint64(b.Epoch) > c.meta.LastEpoch {
			c.problem("broker %d: epoch %d is used twice or was never given", id, b.Epoch)
		}
		epochs[b.Epoch] = id
		if b.Fenced == (b.Walk.Kind == WalkUnfence) && b.Walk.Kind != WalkNone {
			c.problem("broker %d: walk %s with fenced %t", id, b.Walk.Kind, b.Fenced)
		}
		return nil
	})
}

func (c *checker) checkRegistrations() {
	c.registrations = map[LogKey]Registration{}
	c.scan(bucketRegistrations, logKeySize, func(key, payload []byte) error {
		r, err := decodeRegistration(key, payload)
		if err != nil {
			return err
		}
		k := decodeLogKey(key)
		c.registrations[k] = r
		c.totals.Registrations++
		if r.Leader == NoLeader {
			c.totals.Leaderless++
		}
		if t := c.topics[k.Topic]; t != nil {
			c.totals.ByStage[r.Stage(t.Origin)]++
		}
		c.checkMembers(k, &r)
		c.checkSeal(k, &r)
		for _, id := range r.Replicas {
			c.expect(bucketReplicas, appendReplicaKey(nil, id, k), appendBool(nil, r.InISR(id)))
		}
		return nil
	})
	counted := map[TopicID]int64{}
	for k := range c.registrations {
		counted[k.Topic]++
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.topics), TopicID.Compare) {
		t := c.topics[id]
		if counted[id] != t.Registrations {
			c.problem("topic %s: counts %d registrations, has %d", id, t.Registrations, counted[id])
		}
	}
}

func (c *checker) checkMembers(k LogKey, r *Registration) {
	bad := func(what string) { c.problem("registration %s-%d: %s", k.Topic, k.Partition, what) }
	if t := c.topics[k.Topic]; t == nil || t.Deleted {
		bad("the topic is missing")
	}
	replicas := slices.Clone(r.Replicas)
	slices.Sort(replicas)
	if len(replicas) == 0 || len(slices.Compact(replicas)) != len(r.Replicas) {
		bad("no replicas, or one twice")
	}
	if members := slices.DeleteFunc(slices.Clone(r.Replicas), func(id int32) bool { return !r.InISR(id) }); !slices.Equal(members, r.ISR) {
		bad("the ISR is not some of the replicas in their order")
	}
	if r.Leader != NoLeader && !r.InISR(r.Leader) {
		bad("the leader is not in the ISR")
	}
}

// checkSeal compares a seal with the log that it made.
func (c *checker) checkSeal(k LogKey, r *Registration) {
	sealed := r.ClassicToDisklessStartOffset >= 0
	if r.ClassicToDisklessStartOffset < SwitchPending || r.ClassicPrefixInRemoteStorage && !sealed || sealed != (r.DisklessLeaderEpoch >= 0) {
		c.problem("registration %s-%d: seal %d with flag %t and diskless leader epoch %d", k.Topic, k.Partition,
			r.ClassicToDisklessStartOffset, r.ClassicPrefixInRemoteStorage, r.DisklessLeaderEpoch)
	}
	t := c.topics[k.Topic]
	if t == nil {
		return
	}
	switch l := c.logByKey[k]; {
	case t.Origin == OriginDiskless && (sealed || r.ClassicToDisklessStartOffset == SwitchPending):
		c.problem("registration %s-%d: a topic born diskless is switched", k.Topic, k.Partition)
	case (l != nil) != (sealed || t.Origin == OriginDiskless):
		c.problem("registration %s-%d: the seal is %d, and the log's existence %t", k.Topic, k.Partition, r.ClassicToDisklessStartOffset, l != nil)
	case sealed && l.DisklessStartOffset != r.ClassicToDisklessStartOffset:
		c.problem("registration %s-%d: the seal is %d, the log's first diskless offset %d", k.Topic, k.Partition, r.ClassicToDisklessStartOffset, l.DisklessStartOffset)
	}
}

func (c *checker) checkSealProducers() {
	c.scan(bucketSealProducers, logKeySize, func(key, payload []byte) error {
		k := decodeLogKey(key)
		if r, ok := c.registrations[k]; !ok || r.ClassicToDisklessStartOffset < 0 {
			c.problem("producers of the seal of %s-%d: there is no seal", k.Topic, k.Partition)
		}
		all, err := decodeSealProducers(key, payload)
		if err == nil && len(all) == 0 {
			err = corrupt(bucketSealProducers, key, "the row is empty")
		}
		return err
	})
}
