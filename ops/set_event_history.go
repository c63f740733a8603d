package ops

import "github.com/cpnode/cpnode/store"

// EventsFeatureLevel is the feature level from which on the state has events.
const EventsFeatureLevel = store.EventLevel

// SetEventHistory sets how many events the state keeps for watchers: what the leader is
// configured with, in the state, so that all nodes drop the same ones. Only nodes
// propose it. Its answer is an EventHistory.
type SetEventHistory struct{ Events uint64 }

// EventHistory is how many events are kept.
type EventHistory struct{ Events uint64 }

// Validate wants one event at least.
func (r *SetEventHistory) Validate(Limits) error {
	if r.Events == 0 {
		return invalid("events", "must be > 0")
	}
	return nil
}

// Begin logs one entry, or none where the state keeps as many.
func (r *SetEventHistory) Begin(Settings) Steps {
	return &once[EventHistory]{command: &setEventHistory{events: r.Events}}
}

// setEventHistory is the logged command.
type setEventHistory struct{ events uint64 }

func (*setEventHistory) Op() string { return "set-event-history" }

func (c *setEventHistory) fields(f *codec) {
	f.object(1, func(f *codec) { f.uint64(&c.events) })
}

// Apply removes nothing: the entries that bring new events do, a few each.
func (c *setEventHistory) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *setEventHistory) decide(tx *store.ReadTx, _ int64) (change[EventHistory], error) {
	answer := EventHistory{c.events}
	if tx.EventHistory() == c.events {
		return change[EventHistory]{answer: answer}, nil
	}
	return change[EventHistory]{answer, func(tx *store.WriteTx) error {
		tx.SetEventHistory(c.events)
		return nil
	}}, nil
}
