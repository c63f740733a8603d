package ops_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// watchNode is a node at the level that has events.
func watchNode(t *testing.T) *node {
	n := newNode(t, ops.DefaultSettings())
	require.NoError(t, n.store.Update(func(tx *store.WriteTx) error {
		tx.SetFeatureLevel(2)
		return nil
	}))
	return n
}

func (n *node) must(w ops.Write) {
	n.t.Helper()
	_, err := n.run(w, 1)
	require.NoError(n.t, err)
}

// put makes the topic of a number, or gives it another config.
func (n *node) put(topic int, config string) {
	n.t.Helper()
	n.must(&ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topicOf(topic), TopicName: fmt.Sprint("t", topic), NumPartitions: 1,
		Config: map[string]string{"retention.ms": config}}}})
}

func (n *node) drop(topic int) {
	n.t.Helper()
	n.must(&ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topicOf(topic)}})
}

func topicOf(i int) store.TopicID { return store.TopicID{0: 1, 14: byte(i >> 8), 15: byte(i)} }

// read is one Read of the cursor.
func (n *node) read(c *ops.WatchCursor) (events []ops.WatchEvent, more bool) {
	n.t.Helper()
	require.NoError(n.t, n.store.View(func(tx *store.ReadTx) (err error) {
		events, more, err = c.Read(tx)
		return err
	}))
	return events, more
}

// follower is what a watcher makes of what it sees: the config by topic.
type follower struct {
	t      *testing.T
	topics map[store.TopicID]string
	index  int64
	resets int
}

func newFollower(t *testing.T) *follower { return &follower{t: t, topics: map[store.TopicID]string{}} }

func (f *follower) take(events []ops.WatchEvent) {
	for _, e := range events {
		switch e.Kind {
		case ops.WatchReset:
			f.topics, f.index = map[store.TopicID]string{}, 0
			f.resets++
		case ops.WatchChange:
			require.Greater(f.t, e.Index, f.index)
			f.index = e.Index
		case ops.WatchResetEnd:
			f.index = e.Index
		}
		for _, topic := range e.Topics {
			f.topics[topic.TopicID] = topic.Config["retention.ms"]
		}
		for _, id := range e.DeletedTopics {
			delete(f.topics, id)
		}
	}
}

func (n *node) topics() map[store.TopicID]string {
	all := map[store.TopicID]string{}
	require.NoError(n.t, n.store.View(func(tx *store.ReadTx) error {
		return tx.Topics(store.TopicID{}, func(id store.TopicID, topic *store.Topic) (bool, error) {
			if !topic.Deleted {
				all[id] = topic.Config["retention.ms"]
			}
			return true, nil
		})
	}))
	return all
}

// A cursor reads each change once; an entry that changes nothing makes none.
func TestWatchCursor(t *testing.T) {
	n := watchNode(t)
	c := ops.WatchFrom(0)
	events, more := n.read(c)
	require.Empty(t, events)
	require.False(t, more)
	n.put(1, "5")
	n.put(1, "5")
	n.put(1, "6")
	n.drop(1)
	events, more = n.read(c)
	require.False(t, more)
	topic := ops.TopicInfo{TopicID: topicOf(1), TopicName: "t1", Origin: "diskless", Partitions: 1, DeletedAt: -1, Config: map[string]string{"retention.ms": "5"}}
	changed := topic
	changed.Config = map[string]string{"retention.ms": "6"}
	require.Equal(t, []ops.WatchEvent{
		{Kind: ops.WatchChange, Index: 1, Topics: []ops.TopicInfo{topic}},
		{Kind: ops.WatchChange, Index: 2, Topics: []ops.TopicInfo{changed}},
		{Kind: ops.WatchChange, Index: 3, DeletedTopics: []store.TopicID{topicOf(1)}},
	}, events)
	events, _ = n.read(c)
	require.Empty(t, events)
	events, _ = n.read(ops.WatchFrom(2))
	require.Len(t, events, 1)
	ahead := ops.WatchFrom(3)
	_, _ = n.read(ahead)
	require.EqualValues(t, 3, ahead.Seq())
}

// Whatever happens between the reads of a reset, and whenever the history is overrun,
// what a watcher knows once it has read all is the state.
func TestWatchResets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	n := watchNode(t)
	const topics = 2500 // three pages
	for i := range topics {
		n.put(i, "0")
	}
	n.must(&ops.SetEventHistory{Events: 40})
	f, c := newFollower(t), ops.WatchFrom(0)
	live, gone := map[int]bool{}, map[int]bool{} // an id that is gone is not taken again
	for i := range topics {
		live[i] = true
	}
	change := func(i int) {
		switch topic := random.IntN(topics + 200); {
		case gone[topic]:
		case topic%3 == 0 && live[topic]:
			n.drop(topic)
			delete(live, topic)
			gone[topic] = true
		default:
			n.put(topic, fmt.Sprint(i))
			live[topic] = true
		}
	}
	for i := range 300 {
		change(i)
		if i == 0 || i%20 == 0 || i > 250 { // 40 changes are kept, so the first resets are cut short
			events, _ := n.read(c)
			f.take(events)
		}
	}
	for {
		events, more := n.read(c)
		f.take(events)
		if !more {
			break
		}
	}
	require.Equal(t, n.topics(), f.topics)
	require.Equal(t, len(live), len(f.topics))
	require.Positive(t, f.resets)
	require.True(t, slices.Contains(slices.Collect(maps.Values(f.topics)), "0"))
}

// A reset that falls behind the history while it goes on begins anew.
func TestWatchResetThatIsOverrun(t *testing.T) {
	n := watchNode(t)
	for i := range 1500 {
		n.put(i, "0")
	}
	n.must(&ops.SetEventHistory{Events: 1})
	f, c := newFollower(t), ops.WatchFrom(0)
	for i := range 200 {
		n.put(7, fmt.Sprint(i))
	}
	events, more := n.read(c)
	require.True(t, more)
	f.take(events)
	n.put(7, "901")
	n.put(8, "902") // the event before is gone now
	for more {
		events, more = n.read(c)
		f.take(events)
	}
	require.Equal(t, 2, f.resets)
	require.Equal(t, n.topics(), f.topics)
}

// More changes between two reads of a reset than one read takes are not skipped.
func TestWatchResetReadsAllChanges(t *testing.T) {
	n := watchNode(t)
	n.must(&ops.SetEventHistory{Events: 1000})
	for i := range 1500 {
		n.put(i, "0")
	}
	f, c := newFollower(t), ops.WatchFrom(0)
	events, more := n.read(c)
	f.take(events)
	for i := range 600 {
		n.put(i, "1")
	}
	for more {
		events, more = n.read(c)
		f.take(events)
	}
	require.Equal(t, 1, f.resets)
	require.Equal(t, n.topics(), f.topics)
}

// The history is a setting of the state: an entry sets it, once.
func TestSetEventHistory(t *testing.T) {
	n := watchNode(t)
	before := n.index
	n.must(&ops.SetEventHistory{Events: store.DefaultEventHistory})
	require.Equal(t, before, n.index, "nothing would change")
	n.must(&ops.SetEventHistory{Events: 10})
	n.must(&ops.SetEventHistory{Events: 10})
	require.Equal(t, before+1, n.index)
	require.Error(t, (&ops.SetEventHistory{}).Validate(ops.DefaultLimits()))
}

// How far a watcher is behind counts what came since it began.
func TestWatchBehind(t *testing.T) {
	n := watchNode(t)
	for i := range 5 {
		n.put(i, "0")
	}
	behind := func(c *ops.WatchCursor) (events uint64) {
		require.NoError(t, n.store.View(func(tx *store.ReadTx) error {
			events = c.Behind(tx)
			return nil
		}))
		return events
	}
	c := ops.WatchFrom(0)
	_, _ = n.read(c)
	require.Zero(t, behind(c))
	n.put(1, "1")
	n.put(1, "2")
	require.EqualValues(t, 2, behind(c))
	_, _ = n.read(c)
	require.Zero(t, behind(c))
}
