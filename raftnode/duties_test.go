package raftnode

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// watched is a duty that ends with its context, and no sooner than it may.
type watched struct {
	begun, running, most atomic.Int32
	linger               atomic.Pointer[chan struct{}] // when set, what it waits for at its end
}

func (w *watched) do(ctx context.Context) {
	w.begun.Add(1)
	w.most.Store(max(w.most.Load(), w.running.Add(1)))
	defer w.running.Add(-1)
	<-ctx.Done()
	if l := w.linger.Load(); l != nil {
		<-*l
	}
}

// Duties run on the leader alone, move with leadership, and never twice at once.
func TestWhileLeading(t *testing.T) {
	c := startCluster(t, steady)
	duties := make([]watched, len(c.nodes))
	for i, n := range c.nodes {
		n.WhileLeading(duties[i].do) // one of them leads already
	}
	a, b := c.leader(), c.followers()[0]
	to := func(from, at int) {
		require.NoError(t, c.nodes[from].Transfer(t.Context(), c.configs[at].NodeID))
		eventually(t, func() bool { return c.nodes[at].leading() != nil }, "moved")
	}
	eventually(t, func() bool { return duties[a].running.Load() == 1 }, "begun")
	linger := make(chan struct{})
	release := sync.OnceFunc(func() { close(linger) })
	defer release() // Close waits
	duties[a].linger.Store(&linger)
	to(a, b)
	eventually(t, func() bool { return duties[b].running.Load() == 1 }, "begun on the next leader")
	to(b, a)
	eventually(t, func() bool { return duties[b].running.Load() == 0 }, "ended with its leadership")
	createTopic(t, c.nodes[a]) // which takes longer than to begin a duty
	require.EqualValues(t, 1, duties[a].begun.Load(), "the one of the first leadership has not returned")
	release()
	eventually(t, func() bool { return duties[a].begun.Load() == 2 && duties[a].running.Load() == 1 }, "begun for the next leadership")
	require.EqualValues(t, 1, duties[a].most.Load())
	for i := range duties {
		require.EqualValues(t, map[int]int32{a: 2, b: 1}[i], duties[i].begun.Load(), "once a leadership")
	}
}

// A duty begins when the state holds what earlier leaderships committed.
func TestWhileLeadingAfterTheBarrier(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	mustCommit(t, n, "wal/1", 0)
	require.NoError(t, n.Close())

	n = openNode(t, config)
	found := make(chan int64, 1)
	n.WhileLeading(func(ctx context.Context) {
		high, _, err := highWatermark(ctx, n, ReadOptions{Level: Stale}, 0)
		if err != nil {
			high = -1
		}
		found <- high
	})
	require.Positive(t, <-found)
}

// Close ends duties before the node refuses anything, and waits for them.
func TestCloseWaitsForDuties(t *testing.T) {
	n, err := Open(testConfig(t, "n1"))
	require.NoError(t, err)
	var returned, refused atomic.Bool
	begun := make(chan struct{})
	n.WhileLeading(func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		_, err := n.Propose(context.Background(), commitOf("wal/late", 0))
		refused.Store(err != nil)
		returned.Store(true)
	})
	<-begun
	require.NoError(t, n.Close())
	require.True(t, returned.Load())
	require.True(t, refused.Load())
	n.WhileLeading(func(context.Context) { t.Error("the node is closed") })
}
