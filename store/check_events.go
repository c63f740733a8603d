package store

import (
	"maps"
	"slices"
)

// checkEvents wants the newest events without a gap, each of an entry that was applied. They
// are the history of brokers and registrations, whose epochs never go back.
func (c *checker) checkEvents() {
	last := Event{Index: c.meta.EventsFrom}
	seen := epochHistory{checker: c, brokers: map[int32]int64{}, registrations: map[TopicID]map[int32]epochs{}}
	c.scan(bucketEvents, eventKeySize, func(key, payload []byte) error {
		e, err := decodeEvent(key, payload)
		if err != nil {
			return err
		}
		if e.Index <= last.Index || last.Seq > 0 && e.Seq != last.Seq+1 {
			c.problem("event %d at entry %d follows event %d at entry %d", e.Seq, e.Index, last.Seq, last.Index)
		}
		for i := range e.Changes {
			seen.follow(&e.Changes[i], e.Index)
		}
		last = e
		return nil
	})
	if last.Seq != c.meta.LastEventSeq || last.Index > c.meta.AppliedIndex {
		c.problem("the last event is %d at entry %d, should be %d and applied by entry %d", last.Seq, last.Index, c.meta.LastEventSeq, c.meta.AppliedIndex)
	}
	seen.reachThePresent()
}

// epochHistory is how far the epochs of each row had come by the events so far.
type epochHistory struct {
	checker       *checker
	brokers       map[int32]int64
	registrations map[TopicID]map[int32]epochs // by topic, which is forgotten as a whole, and partition
}

// epochs are those of one registration.
type epochs struct{ leader, partition int32 }

func epochsOf(r *Registration) epochs { return epochs{r.LeaderEpoch, r.PartitionEpoch} }

func (e epochs) below(other epochs) bool {
	return e.leader < other.leader || e.partition < other.partition
}

// follow takes in what the entry at an index has changed.
func (h *epochHistory) follow(change *RowChange, index uint64) {
	switch {
	case change.Broker != nil:
		if before := h.brokers[change.BrokerID]; change.Broker.Epoch < before {
			h.checker.problem("broker %d: its epoch goes back from %d to %d at entry %d", change.BrokerID, before, change.Broker.Epoch, index)
		}
		h.brokers[change.BrokerID] = change.Broker.Epoch
	case change.Registration != nil:
		partitions := h.registrations[change.Topic]
		if partitions == nil {
			partitions = map[int32]epochs{}
			h.registrations[change.Topic] = partitions
		}
		now, before := epochsOf(change.Registration), partitions[change.Partition]
		if now.below(before) {
			h.checker.problem("registration %s-%d: its epochs go back from %v to %v at entry %d", change.Topic, change.Partition, before, now, index)
		}
		partitions[change.Partition] = now
	case change.Kind == KindTopic && change.TopicRow == nil:
		delete(h.registrations, change.Topic)
	}
}

// reachThePresent wants the registrations of now to have the epochs of their last events.
func (h *epochHistory) reachThePresent() {
	for _, topic := range slices.SortedFunc(maps.Keys(h.registrations), TopicID.Compare) {
		partitions := h.registrations[topic]
		for _, partition := range slices.Sorted(maps.Keys(partitions)) {
			last := partitions[partition]
			r, ok := h.checker.registrations[LogKey{topic, partition}]
			if now := epochsOf(&r); !ok || now != last {
				h.checker.problem("registration %s-%d: its epochs were %v at its last event, and are %v", topic, partition, last, now)
			}
		}
	}
}
