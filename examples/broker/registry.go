package main

import (
	"sync"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
	switchover "github.com/cpnode/cpnode/switch"
)

// registry is what the control plane has said of brokers, topics and partitions.
type registry struct {
	mu         sync.Mutex
	brokers    map[int32]ops.WatchedBroker
	topics     map[store.TopicID]ops.TopicInfo
	partitions map[ops.LogRef]ops.WatchedPartition
	// present are the partitions that a reset has named so far; nil outside of one.
	present map[ops.LogRef]bool
	applied map[ops.LogRef]int32 // leader epoch of the role that this broker has taken
}

var _ switchover.Brokers = (*registry)(nil)

func newRegistry() *registry {
	return &registry{
		brokers: map[int32]ops.WatchedBroker{}, topics: map[store.TopicID]ops.TopicInfo{},
		partitions: map[ops.LogRef]ops.WatchedPartition{}, applied: map[ops.LogRef]int32{},
	}
}

// note takes an event in, and returns the partitions whose registration or config it
// changed, and those that are gone.
func (r *registry) note(e *ops.WatchEvent) (changed, gone []ops.LogRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range e.Brokers {
		r.brokers[b.BrokerID] = b
	}
	touched := map[ops.LogRef]bool{}
	for _, t := range e.Topics {
		r.topics[t.TopicID] = t
		for ref := range r.partitions {
			touched[ref] = touched[ref] || ref.TopicID == t.TopicID
		}
	}
	for _, p := range e.Partitions {
		ref := ops.LogRef{TopicID: p.TopicID, Partition: p.Partition}
		r.partitions[ref], touched[ref] = p, true
		if r.present != nil {
			r.present[ref] = true
		}
	}
	for ref, yes := range touched {
		if yes {
			changed = append(changed, ref)
		}
	}
	return changed, r.drop(e)
}

// drop forgets partitions of deleted topics, and those that a reset did not name.
func (r *registry) drop(e *ops.WatchEvent) (gone []ops.LogRef) {
	for ref := range r.partitions {
		if e.Kind == ops.WatchResetEnd && !r.present[ref] {
			gone = append(gone, ref)
		}
		for _, id := range e.DeletedTopics {
			if ref.TopicID == id {
				gone = append(gone, ref)
			}
		}
	}
	for _, ref := range gone {
		delete(r.partitions, ref)
		delete(r.applied, ref)
	}
	switch e.Kind {
	case ops.WatchReset:
		r.present = map[ops.LogRef]bool{}
	case ops.WatchResetEnd:
		r.present = nil
	}
	return gone
}

// registration is that of a partition, as the gate wants it.
func (r *registry) registration(ref ops.LogRef) (switchover.Registration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.partitions[ref]
	if !ok {
		return switchover.Registration{}, false
	}
	return switchover.Registration{WatchedPartition: p, TopicConfig: r.topics[ref.TopicID].Config}, true
}

// all are the partitions of this moment.
func (r *registry) all() []ops.LogRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	var refs []ops.LogRef
	for ref := range r.partitions {
		refs = append(refs, ref)
	}
	return refs
}

// leads says whether a broker is registered as the leader.
func (r *registry) leads(ref ops.LogRef, broker int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.partitions[ref]
	return ok && p.Leader == broker
}

// Epoch implements switchover.Brokers.
func (r *registry) Epoch(broker int32) (epoch int64, alive bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.brokers[broker]
	if !ok {
		return -1, false
	}
	return b.BrokerEpoch, !b.Fenced
}

// registered says whether an incarnation of a broker is the registered one.
func (r *registry) registered(broker int32, incarnation string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.brokers[broker].IncarnationID == incarnation
}

// endpoint is where a broker is reached, "" if it never registered.
func (r *registry) endpoint(broker int32) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.brokers[broker]; len(b.Endpoints) > 0 {
		return b.Endpoints[0]
	}
	return ""
}

// tookRole notes that the gate has carried out a registration of that leader epoch.
func (r *registry) tookRole(ref ops.LogRef, leaderEpoch int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied[ref] = leaderEpoch
}

// hasRole says whether this broker's role is that of the leader epoch.
func (r *registry) hasRole(ref ops.LogRef, leaderEpoch int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch, ok := r.applied[ref]
	return ok && epoch == leaderEpoch
}
