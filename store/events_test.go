package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// eventStore is a state at the level that has events.
func eventStore(t *testing.T) *Store {
	s := openTest(t)
	update(t, s, func(tx *WriteTx) { tx.SetFeatureLevel(EventLevel) })
	return s
}

// entry applies a log entry that does fn.
func entry(t *testing.T, s *Store, index uint64, fn func(*WriteTx)) {
	t.Helper()
	update(t, s, func(tx *WriteTx) {
		fn(tx)
		require.NoError(t, tx.SetApplied(index, 1))
	})
}

func eventsAfter(t *testing.T, s *Store, after uint64) (events []Event) {
	t.Helper()
	view(t, s, func(tx *ReadTx) {
		require.NoError(t, tx.Events(after, func(e *Event) bool {
			events = append(events, *e)
			return true
		}))
	})
	return events
}

func indexes(events []Event) (all []uint64) {
	for _, e := range events {
		all = append(all, e.Index)
	}
	return all
}

// An event holds each changed row once, as the entry left it, in the order of keys; an
// entry that changes none makes none, and those of soft-deleted topics are not news.
func TestEvents(t *testing.T) {
	s := eventStore(t)
	a, b := TopicID{0xaa}, TopicID{0xbb}
	entry(t, s, 3, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(b, Topic{Name: "b", Origin: OriginDiskless}))
		require.NoError(t, tx.PutTopic(a, Topic{Name: "a", Origin: OriginDiskless}))
		require.NoError(t, tx.CreateLog(LogKey{a, 0}, NewLog(0, 0)))
		require.NoError(t, tx.PutRegistration(LogKey{a, 1}, Registration{Replicas: []int32{7}, ISR: []int32{7}, Leader: 7}))
		require.NoError(t, tx.PutBroker(7, Broker{Epoch: tx.NextBrokerEpoch(), IncarnationID: "x", Fenced: true}))
	})
	entry(t, s, 4, func(tx *WriteTx) { require.NoError(t, tx.PutFence("wal/x", 1)) })
	entry(t, s, 6, func(tx *WriteTx) {
		_, err := tx.SoftDeleteTopic(a, 77)
		require.NoError(t, err)
	})
	entry(t, s, 7, func(tx *WriteTx) { require.NoError(t, tx.DropLog(LogKey{a, 0})) })
	require.Equal(t, []Event{
		{Index: 3, Seq: 1, Changes: []RowChange{
			{Kind: KindTopic, Topic: a, TopicRow: &Topic{Name: "a", Origin: OriginDiskless, Logs: 1, Registrations: 1}},
			{Kind: KindTopic, Topic: b, TopicRow: &Topic{Name: "b", Origin: OriginDiskless}},
			{Kind: KindBroker, BrokerID: 7, Broker: &Broker{Epoch: 1, IncarnationID: "x", Fenced: true}},
			{Kind: KindRegistration, Topic: a, Partition: 1, Origin: OriginDiskless, Registration: &Registration{Replicas: []int32{7}, ISR: []int32{7}, Leader: 7}},
		}},
		{Index: 6, Seq: 2, Changes: []RowChange{{Kind: KindTopic, Topic: a}}},
	}, eventsAfter(t, s, 0))
	require.Equal(t, []uint64{6}, indexes(eventsAfter(t, s, 3)))
	require.Empty(t, eventsAfter(t, s, 6))
}

// Below the level there are none, and what was there before it has none.
func TestEventsBelowTheirLevel(t *testing.T) {
	s := openTest(t)
	put := func(tx *WriteTx) { require.NoError(t, tx.PutTopic(TopicID{1}, Topic{Name: "a"})) }
	entry(t, s, 3, put)
	require.Empty(t, eventsAfter(t, s, 0))
	entry(t, s, 4, func(tx *WriteTx) { tx.SetFeatureLevel(EventLevel) })
	entry(t, s, 5, put)
	require.Equal(t, []uint64{5}, indexes(eventsAfter(t, s, 0)))
	view(t, s, func(tx *ReadTx) { require.EqualValues(t, 3, tx.Meta().EventsFrom) })
}

// Old events go when new ones come, a few with each entry, and Meta says up to where.
func TestEventHistory(t *testing.T) {
	s := eventStore(t)
	put := func(i uint64) {
		entry(t, s, 2*i, func(tx *WriteTx) { require.NoError(t, tx.PutTopic(TopicID{1}, Topic{Name: "a", CreatedAt: int64(i)})) })
	}
	for i := range uint64(100) {
		put(i + 1)
	}
	require.Len(t, eventsAfter(t, s, 0), 100)
	update(t, s, func(tx *WriteTx) { tx.SetEventHistory(10) })
	for i, left := range []int{100 + 1 - trimmedEvents, 100 + 2 - 2*trimmedEvents} {
		put(uint64(101 + i))
		require.Len(t, eventsAfter(t, s, 0), left)
	}
	for i := range uint64(20) {
		put(103 + i)
	}
	var want []uint64
	for i := range uint64(10) {
		want = append(want, 2*(113+i))
	}
	require.Equal(t, want, indexes(eventsAfter(t, s, 0)))
	view(t, s, func(tx *ReadTx) { require.EqualValues(t, 224, tx.Meta().EventsFrom) })
}

// A transaction of many entries leaves what one transaction for each leaves.
func TestEventsOfOneTransaction(t *testing.T) {
	type left struct {
		seq, from uint64
		events    []Event
	}
	var states []left
	for _, entries := range []int{1, 50} {
		s := eventStore(t)
		update(t, s, func(tx *WriteTx) { tx.SetEventHistory(7) })
		for first := 0; first < 50; first += entries {
			update(t, s, func(tx *WriteTx) {
				for i := first; i < first+entries; i++ {
					require.NoError(t, tx.PutTopic(TopicID{byte(i)}, Topic{Name: fmt.Sprint("t", i)}))
					require.NoError(t, tx.SetApplied(uint64(i+1), 1))
				}
			})
		}
		view(t, s, func(tx *ReadTx) {
			states = append(states, left{seq: tx.Meta().LastEventSeq, from: tx.Meta().EventsFrom})
		})
		states[len(states)-1].events = eventsAfter(t, s, 0)
	}
	require.Len(t, states[0].events, 7)
	require.Equal(t, states[0], states[1])
}

// The events are the history of brokers and registrations: Check finds where an epoch went
// back, and a row that is not what its last event says. A topic that is deleted and comes back
// begins anew.
func TestCheckOfEpochsByEvents(t *testing.T) {
	k := LogKey{TopicID{0xaa}, 1}
	put := func(leader, partition int32) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) {
			require.NoError(t, tx.PutRegistration(k, Registration{Replicas: []int32{7}, ISR: []int32{7}, Leader: 7, LeaderEpoch: leader, PartitionEpoch: partition,
				ClassicToDisklessStartOffset: NoSwitch, DisklessLeaderEpoch: -1, SealedBy: -1}))
		}
	}
	broker := func(epoch int64) func(*testing.T, *WriteTx) {
		return func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.PutBroker(7, Broker{Epoch: epoch})) }
	}
	topic := func(t *testing.T, tx *WriteTx) {
		require.NoError(t, tx.PutTopic(k.Topic, Topic{Name: "a", Origin: OriginClassic}))
	}
	dropped := func(t *testing.T, tx *WriteTx) {
		_, err := tx.SoftDeleteTopic(k.Topic, 5)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		entries []func(*testing.T, *WriteTx)
		unsaid  func(*testing.T, *WriteTx) // makes no event
		want    string
	}{
		{entries: []func(*testing.T, *WriteTx){topic, put(3, 5), put(3, 6), put(4, 7), dropped, topic, put(0, 0)}},
		{entries: []func(*testing.T, *WriteTx){topic, put(3, 5), put(2, 6)}, want: "its epochs go back from {3 5} to {2 6} at entry 3"},
		{entries: []func(*testing.T, *WriteTx){topic, put(3, 5), put(3, 4)}, want: "its epochs go back from {3 5} to {3 4} at entry 3"},
		{entries: []func(*testing.T, *WriteTx){topic, put(3, 5)}, unsaid: put(3, 6), want: "its epochs were {3 5} at its last event, and are {3 6}"},
		{entries: []func(*testing.T, *WriteTx){broker(2), broker(1)}, want: "broker 7: its epoch goes back from 2 to 1 at entry 2"},
	} {
		s, err := Open(filepath.Join(t.TempDir(), "state.db"), Options{Sync: SyncNever})
		require.NoError(t, err)
		update(t, s, func(tx *WriteTx) { tx.SetFeatureLevel(EventLevel) })
		update(t, s, func(tx *WriteTx) { tx.NextBrokerEpoch(); tx.NextBrokerEpoch() })
		for i, fn := range c.entries {
			entry(t, s, uint64(i+1), func(tx *WriteTx) { fn(t, tx) })
		}
		if c.unsaid != nil {
			update(t, s, func(tx *WriteTx) { c.unsaid(t, tx) })
		}
		path := s.Path()
		require.NoError(t, s.Close())
		report, err := Check(path)
		require.NoError(t, err)
		if c.want == "" {
			require.Empty(t, report.Problems)
			continue
		}
		require.Len(t, report.Problems, 1)
		require.Contains(t, report.Problems[0], c.want)
	}
}

// Check finds a gap, an event of an entry that was not applied, and a lost newest one.
func TestCheckEvents(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, *WriteTx){
		"follows event":    func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.delete(bucketEvents, appendID(nil, 2))) },
		"the last event":   func(t *testing.T, tx *WriteTx) { require.NoError(t, tx.delete(bucketEvents, appendID(nil, 3))) },
		"applied by entry": func(_ *testing.T, tx *WriteTx) { tx.meta.AppliedIndex = 2 },
	} {
		s, err := Open(filepath.Join(t.TempDir(), "state.db"), Options{Sync: SyncNever})
		require.NoError(t, err)
		update(t, s, func(tx *WriteTx) { tx.SetFeatureLevel(EventLevel) })
		for i := range uint64(3) {
			entry(t, s, i+1, func(tx *WriteTx) { require.NoError(t, tx.PutTopic(TopicID{1}, Topic{Name: "a", CreatedAt: int64(i)})) })
		}
		update(t, s, func(tx *WriteTx) { damage(t, tx) })
		path := s.Path()
		require.NoError(t, s.Close())
		report, err := Check(path)
		require.NoError(t, err)
		require.Len(t, report.Problems, 1, "%s: %v", name, report.Problems)
		require.Contains(t, report.Problems[0], name)
	}
}
