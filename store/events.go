package store

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// An event is what one log entry changed of the rows that watchers follow:
//
//	| seq varint | changes varint | changes x ( kind 1 | key string | row string ) |
//
// key and row are those of the bucket of that kind, in its own codec. The row of a
// registration follows a byte with the origin of its topic, which is needed to tell its
// state; no row says that the topic was deleted, with its registrations. Events are
// numbered from 1, and those in the bucket have consecutive numbers, of which the
// last is in Meta. So is the index up to which older ones were removed, and how many
// are kept: the state holds it, so that all nodes remove alike.

// Kind says what a RowChange is of.
type Kind uint8

// Codes on disk are append-only.
const (
	KindTopic        Kind = 1
	KindBroker       Kind = 2
	KindRegistration Kind = 3
)

const (
	// DefaultEventHistory is how many events are kept until the state says otherwise.
	DefaultEventHistory = 100_000
	// EventLevel is the feature level from which on there are events: a log that was
	// written below it leads to the state that it always led to.
	EventLevel = 2
	// trimmedEvents is how many old events an entry with a new one removes: more than
	// one, so that a history that was made shorter gets there, and few, so that no
	// entry takes long over it.
	trimmedEvents = 16
)

// Event is what the log entry at Index changed.
type Event struct {
	Index   uint64
	Seq     uint64 // grows by one with each event
	Changes []RowChange
}

// RowChange is a row as an entry left it. Of the three only the one of its kind is set.
type RowChange struct {
	Kind      Kind
	Topic     TopicID // of topics and registrations
	Partition int32   // of registrations
	BrokerID  int32   // of brokers

	TopicRow     *Topic // nil when the topic was deleted, and its registrations
	Broker       *Broker
	Registration *Registration
	Origin       Origin // of a registration's topic
}

// rowRef names a row that watchers follow.
type rowRef struct {
	kind   Kind
	log    LogKey // of topics and registrations
	broker int32
}

func compareRefs(a, b rowRef) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.broker, b.broker),
		a.log.Topic.Compare(b.log.Topic), cmp.Compare(a.log.Partition, b.log.Partition))
}

func topicRef(id TopicID) rowRef { return rowRef{kind: KindTopic, log: LogKey{Topic: id}} }

// changed takes in that the present entry changes a row. Every method that writes such
// a row calls it, but for those of a deleted topic, whose deletion says it all.
func (tx *WriteTx) changed(ref rowRef) { tx.changedRows = append(tx.changedRows, ref) }

// SetApplied records the log entry that was applied last, and what it changed as an
// event. It is called once an entry, after its changes.
func (tx *WriteTx) SetApplied(index, term uint64) error {
	refs := tx.changedRows
	tx.changedRows = refs[:0]
	tx.meta.AppliedIndex, tx.meta.AppliedTerm = index, term
	if len(refs) == 0 || tx.meta.FeatureLevel < EventLevel {
		return nil
	}
	slices.SortFunc(refs, compareRefs)
	return tx.putEvent(index, slices.Compact(refs))
}

func (tx *WriteTx) putEvent(index uint64, refs []rowRef) (err error) {
	tx.meta.LastEventSeq++
	b := binary.AppendUvarint(tx.arena.buf(64+128*len(refs)), tx.meta.LastEventSeq)
	b = binary.AppendUvarint(b, uint64(len(refs)))
	for _, ref := range refs {
		if b, err = tx.appendChange(b, ref); err != nil {
			return err
		}
	}
	if err := tx.put(bucketEvents, appendID(nil, index), b); err != nil {
		return err
	}
	return tx.trimEvents()
}

// appendChange appends the row that ref names as it is now.
func (tx *WriteTx) appendChange(b []byte, ref rowRef) ([]byte, error) {
	key, row, err := tx.changedRow(ref)
	b = append(b, byte(ref.kind))
	b = appendString(b, string(key))
	return appendString(b, string(row)), err
}

// changedRow is the key and the row of a change.
func (tx *WriteTx) changedRow(ref rowRef) (key, row []byte, err error) {
	if ref.kind == KindBroker {
		broker, _, err := tx.Broker(ref.broker)
		return appendBrokerKey(nil, ref.broker), appendBroker(nil, &broker), err
	}
	t, ok, err := tx.Topic(ref.log.Topic)
	switch {
	case err != nil:
		return nil, nil, err
	case ref.kind == KindRegistration:
		r, _, err := tx.Registration(ref.log)
		return appendLogKey(nil, ref.log), appendRegistration([]byte{byte(t.Origin)}, &r), err
	case ok && !t.Deleted:
		row = appendTopic(nil, &t)
	}
	return ref.log.Topic[:], row, nil
}

// trimEvents removes the oldest events beyond those that are kept, a few at a time.
func (tx *WriteTx) trimEvents() error {
	if tx.meta.LastEventSeq <= tx.EventHistory() {
		return nil // not one too many, whichever is the oldest
	}
	for range trimmedEvents {
		var oldest Event
		err := tx.scan(bucketEvents, appendID(nil, tx.meta.EventsFrom+1), func(key, payload []byte) (bool, error) {
			return false, readEvent(key, payload, &oldest, func(Kind, []byte, []byte) error { return nil })
		})
		if err != nil || tx.meta.LastEventSeq-oldest.Seq < tx.EventHistory() {
			return err
		}
		if err := tx.delete(bucketEvents, appendID(nil, oldest.Index)); err != nil {
			return err
		}
		tx.meta.EventsFrom = oldest.Index
	}
	return nil
}

// EventHistory is how many events the state keeps.
func (tx *ReadTx) EventHistory() uint64 {
	if tx.meta.EventHistory == 0 {
		return DefaultEventHistory
	}
	return tx.meta.EventHistory
}

// SetEventHistory sets how many events are kept, at least 1. A shorter history is
// reached over the events that follow.
func (tx *WriteTx) SetEventHistory(events uint64) {
	tx.changes++
	tx.meta.EventHistory = events
}

// Events calls fn for each event with an index above after, oldest first, until it
// returns false. Those up to Meta.EventsFrom are gone.
func (tx *ReadTx) Events(after uint64, fn func(*Event) bool) error {
	return tx.scan(bucketEvents, appendID(nil, after+1), func(key, payload []byte) (bool, error) {
		e, err := decodeEvent(key, payload)
		return err == nil && fn(&e), err
	})
}

func decodeEvent(key, payload []byte) (Event, error) {
	e := Event{}
	err := readEvent(key, payload, &e, func(kind Kind, key, row []byte) error {
		c, err := decodeChange(kind, key, row)
		e.Changes = append(e.Changes, c)
		return err
	})
	return e, err
}

// readEvent reads all of an event but its changes into e, and calls fn for each of these.
func readEvent(key, payload []byte, e *Event, fn func(kind Kind, key, row []byte) error) error {
	if len(key) != eventKeySize {
		return corrupt(bucketEvents, key, "wrong length of key")
	}
	r := rowReader{buf: payload}
	e.Index, e.Seq = decodeID(key), r.uint()
	for range r.count() {
		kind, rowKey, row := Kind(r.byte()), r.bytes(r.uint()), r.bytes(r.uint())
		if r.bad {
			break
		}
		if kind < KindTopic || kind > KindRegistration || len(rowKey) != eventKeySizes[kind] || kind != KindTopic && len(row) == 0 {
			return corrupt(bucketEvents, key, "a change that does not decode")
		}
		if err := fn(kind, rowKey, row); err != nil {
			return err
		}
	}
	return r.done(bucketEvents, key)
}

// eventKeySizes are the sizes of the keys in changes, by kind.
var eventKeySizes = [...]int{KindTopic: topicKeySize, KindBroker: brokerKeySize, KindRegistration: logKeySize}

func decodeChange(kind Kind, key, row []byte) (c RowChange, err error) {
	c.Kind = kind
	switch kind {
	case KindTopic:
		c.Topic = TopicID(key)
		if len(row) > 0 {
			c.TopicRow = new(Topic)
			*c.TopicRow, err = decodeTopic(key, row)
		}
	case KindBroker:
		c.BrokerID, c.Broker = decodeBrokerKey(key), new(Broker)
		*c.Broker, err = decodeBroker(key, row)
	case KindRegistration:
		k := decodeLogKey(key)
		c.Topic, c.Partition, c.Origin, c.Registration = k.Topic, k.Partition, Origin(row[0]), new(Registration)
		*c.Registration, err = decodeRegistration(key, row[1:])
	}
	return c, err
}
