package ops

import "github.com/cpnode/cpnode/store"

// The kinds of a WatchEvent, which are the names of server-sent events.
const (
	// WatchChange is what one log entry changed.
	WatchChange = "change"
	// WatchReset says that changes after the watcher's index are not kept any more:
	// what it knows is to be dropped, and the present rows follow.
	WatchReset = "reset"
	// WatchRows holds some of the present rows, or what became of them since.
	WatchRows = "rows"
	// WatchResetEnd says that the rows since the reset are the state at its index.
	WatchResetEnd = "reset-end"
)

// WatchEvent is one step of a watch: rows as they are after it.
type WatchEvent struct {
	Kind          string             `json:"-"`
	Index         int64              `json:"index" doc:"Of the log entry; of the state in rows and reset-end; in reset, the index up to which changes are not kept."`
	Topics        []TopicInfo        `json:"topics,omitzero" doc:"Topics that were created or changed."`
	DeletedTopics []store.TopicID    `json:"deleted_topics,omitzero" doc:"Their partitions are gone too."`
	Brokers       []WatchedBroker    `json:"brokers,omitzero"`
	Partitions    []WatchedPartition `json:"partitions,omitzero"`
}

// WatchedBroker is a broker that has registered.
type WatchedBroker struct {
	BrokerID      int32    `json:"broker_id"`
	BrokerEpoch   int64    `json:"broker_epoch"`
	IncarnationID string   `json:"incarnation_id"`
	Rack          string   `json:"rack"`
	Endpoints     []string `json:"endpoints"`
	Fenced        bool     `json:"fenced"`
}

// WatchedPartition is a registered partition, without the producers of its seal, which
// describe-partitions shows.
type WatchedPartition struct {
	TopicID                      store.TopicID  `json:"topic_id"`
	Partition                    int32          `json:"partition"`
	State                        PartitionState `json:"state"`
	Replicas                     []int32        `json:"replicas"`
	ISR                          []int32        `json:"isr"`
	Leader                       int32          `json:"leader" doc:"-1 = none."`
	LeaderEpoch                  int32          `json:"leader_epoch"`
	PartitionEpoch               int32          `json:"partition_epoch"`
	ClassicToDisklessStartOffset int64          `json:"classic_to_diskless_start_offset" doc:">= 0: the seal, -1: no switch, -2: not sealed yet."`
	ClassicPrefixInRemoteStorage bool           `json:"classic_prefix_in_remote_storage"`
	DisklessLeaderEpoch          int32          `json:"diskless_leader_epoch" doc:"Leader epoch of the seal, -1 without."`
}

// rows is how many rows the event holds.
func (e *WatchEvent) rows() int {
	return len(e.Topics) + len(e.DeletedTopics) + len(e.Brokers) + len(e.Partitions)
}

func (e *WatchEvent) addBroker(id int32, b *store.Broker) {
	e.Brokers = append(e.Brokers, WatchedBroker{id, b.Epoch, b.IncarnationID, b.Rack, b.Endpoints, b.Fenced})
}

func (e *WatchEvent) addPartition(k store.LogKey, origin store.Origin, r *store.Registration) {
	e.Partitions = append(e.Partitions, WatchedPartition{
		TopicID: k.Topic, Partition: k.Partition, State: PartitionStates[r.Stage(origin)], Replicas: r.Replicas, ISR: r.ISR,
		Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, ClassicToDisklessStartOffset: r.ClassicToDisklessStartOffset,
		ClassicPrefixInRemoteStorage: r.ClassicPrefixInRemoteStorage, DisklessLeaderEpoch: r.DisklessLeaderEpoch,
	})
}

// WatchCursor is where a watcher is. It reads all changes after an index once and in
// the order of the log, or a reset and all changes after that.
type WatchCursor struct {
	index uint64 // everything up to here was read
	seq   uint64 // number of the last event among that
	began uint64 // number of the last event when the cursor was first read
	ready bool   // began is set
	reset *resetScan
}

// resetScan is how far a reset has got through the present rows: brokers at once, whose
// number is that of processes, then topics, then partitions.
type resetScan struct {
	topic     store.TopicID
	topics    bool         // all were read
	partition store.LogKey // the next
}

// Rows (events) that one Read returns before it stops: a transaction and the memory of
// one watcher. The rows of one entry are not parted.
const (
	watchReadRows   = 1000
	watchReadEvents = 256
)

// WatchFrom is a cursor for changes with an index above from.
func WatchFrom(from uint64) *WatchCursor { return &WatchCursor{index: from} }

// Seq is the number of the last event that was read: a state with a later one has more
// to read.
func (c *WatchCursor) Seq() uint64 { return c.seq }

// Behind is how many events that came since the first Read are still to be read.
func (c *WatchCursor) Behind(tx *store.ReadTx) uint64 {
	return tx.Meta().LastEventSeq - min(tx.Meta().LastEventSeq, max(c.seq, c.began))
}

// Read returns what is next, and whether there is more in this state. A reset is read
// from several states: the rows of one page, then what changed since and the rows of
// the next. So all that was read is always as of one index.
func (c *WatchCursor) Read(tx *store.ReadTx) (events []WatchEvent, more bool, err error) {
	meta := tx.Meta()
	if !c.ready {
		c.began, c.ready = meta.LastEventSeq, true
	}
	if c.index < meta.EventsFrom {
		c.reset, c.index, c.seq = &resetScan{}, meta.AppliedIndex, meta.LastEventSeq
		events = append(events, WatchEvent{Kind: WatchReset, Index: int64(meta.EventsFrom)})
	}
	changes, more, err := c.changes(tx)
	events = append(events, changes...)
	if err != nil || more || c.reset == nil {
		return events, more, err
	}
	rows, more, err := c.reset.page(tx)
	rows.Index = int64(meta.AppliedIndex)
	if rows.rows() > 0 {
		events = append(events, rows)
	}
	if !more {
		events = append(events, WatchEvent{Kind: WatchResetEnd, Index: int64(meta.AppliedIndex)})
		c.index, c.reset = meta.AppliedIndex, nil
	}
	return events, more, err
}

// changes reads events after the cursor, and whether some are left.
func (c *WatchCursor) changes(tx *store.ReadTx) (events []WatchEvent, more bool, err error) {
	kind, rows := WatchChange, 0
	if c.reset != nil {
		kind = WatchRows
	}
	err = tx.Events(c.index, func(e *store.Event) bool {
		if more = rows >= watchReadRows || len(events) == watchReadEvents; more {
			return false
		}
		event := watchEvent(kind, e)
		rows += event.rows()
		events = append(events, event)
		c.index, c.seq = e.Index, e.Seq
		return true
	})
	if !more {
		c.seq = tx.Meta().LastEventSeq // for a cursor ahead of this state
	}
	return events, more, err
}

func watchEvent(kind string, e *store.Event) WatchEvent {
	event := WatchEvent{Kind: kind, Index: int64(e.Index)}
	for i := range e.Changes {
		switch c := &e.Changes[i]; {
		case c.Broker != nil:
			event.addBroker(c.BrokerID, c.Broker)
		case c.Registration != nil:
			event.addPartition(store.LogKey{Topic: c.Topic, Partition: c.Partition}, c.Origin, c.Registration)
		case c.TopicRow != nil:
			event.Topics = append(event.Topics, topicInfo(c.Topic, c.TopicRow))
		default:
			event.DeletedTopics = append(event.DeletedTopics, c.Topic)
		}
	}
	return event
}

// page reads the next present rows, and whether some are left.
func (s *resetScan) page(tx *store.ReadTx) (rows WatchEvent, more bool, err error) {
	rows.Kind = WatchRows
	if s.topics {
		more, err = s.readPartitions(tx, &rows)
		return rows, more, err
	}
	if s.topic.IsZero() {
		err = tx.Brokers(func(id int32, b *store.Broker) bool {
			rows.addBroker(id, b)
			return true
		})
	}
	if err == nil {
		more, err = s.readTopics(tx, &rows)
	}
	s.topics = !more
	return rows, true, err
}

func (s *resetScan) readTopics(tx *store.ReadTx, rows *WatchEvent) (more bool, err error) {
	err = tx.Topics(s.topic, func(id store.TopicID, t *store.Topic) (bool, error) {
		if more = len(rows.Topics) == watchReadRows; more {
			return false, nil
		}
		s.topic = id
		if !t.Deleted {
			rows.Topics = append(rows.Topics, topicInfo(id, t))
		}
		return true, nil
	})
	return more, err
}

func (s *resetScan) readPartitions(tx *store.ReadTx, rows *WatchEvent) (more bool, err error) {
	var topic store.Topic
	var of store.TopicID
	err = tx.Registrations(s.partition, func(k store.LogKey, r *store.Registration) (bool, error) {
		s.partition = k
		if more = len(rows.Partitions) == watchReadRows; more {
			return false, nil
		}
		if k.Topic != of {
			var err error
			if topic, _, err = tx.Topic(k.Topic); err != nil {
				return false, err
			}
			of = k.Topic
		}
		rows.addPartition(k, topic.Origin, r)
		return true, nil
	})
	return more, err
}
