package raftnode

import (
	"bytes"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// A write that was answered by reading, while another node led and wrote in
// between, must not be confirmed by this node's next leadership.
func TestReadOfAnEarlierLeadershipIsNotAnswered(t *testing.T) {
	var armed atomic.Bool
	entered, leave := make(chan struct{}), make(chan struct{})
	c := startCluster(t, func(cfg *Config) {
		cfg.Now = func() time.Time {
			// Others look at the clock as well: only the write is held up.
			if armed.Load() && bytes.Contains(debug.Stack(), []byte("ops.nextCommand")) && armed.CompareAndSwap(true, false) {
				close(entered)
				<-leave
			}
			return time.Now()
		}
	})
	a := c.leader()
	createTopic(t, c.nodes[a])
	b := c.followers()[0]
	to := func(from, at int) {
		require.NoError(t, c.nodes[from].Transfer(t.Context(), c.configs[at].NodeID))
		eventually(t, func() bool { return c.nodes[at].leading() != nil }, "moved")
	}
	term := c.nodes[a].leading().term
	type res struct {
		r   Result
		err error
	}
	done := make(chan res, 1)
	armed.Store(true)
	go func() {
		r, err := c.nodes[a].Propose(t.Context(), &ops.IsSafeToDeleteFileRequest{ObjectKey: "wal/x"})
		done <- res{r, err}
	}()
	<-entered
	to(a, b)
	mustCommit(t, c.nodes[b], "wal/x", 0)
	to(b, a)
	require.Greater(t, c.nodes[a].leading().term, term)
	close(leave)
	got := <-done
	require.ErrorIs(t, got.err, ErrNotLeader, "answered %+v", got.r.Answer)
}
