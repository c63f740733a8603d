package raftnode

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What raft knows to be committed on a follower ends with its log: a node that had just
// begun to catch up was ready, and the next one was taken down for it.
func TestFollowerFarBehindIsNotReady(t *testing.T) {
	b := &brake{}
	at := 0
	c := startCluster(t, func(c *Config) {
		steady(c)
		c.MaxAppendEntries, c.LeaderSlowDisk = 64, 0
		if at++; at == 1 {
			c.beforeAppend = b.pass
		}
	})
	if c.leader() == 0 {
		require.NoError(t, c.nodes[0].Transfer(t.Context(), c.configs[1].NodeID))
	}
	eventually(t, func() bool { return c.leader() != 0 }, "another one leads")
	leader := c.nodes[c.leader()]
	createTopic(t, leader)
	c.stop(0)
	var clients sync.WaitGroup
	for id := range 16 {
		clients.Go(func() {
			for i := range 2 * readyLag / 16 {
				if _, err := commit(t.Context(), leader, fmt.Sprint(id, "-", i), int32(id%4)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	before := leader.raft.LastIndex() - 2*readyLag
	b.close()
	n := c.start(0)
	defer b.open()
	eventually(t, func() bool { return b.holds.Load() }, "the first entries come")
	b.step()
	eventually(t, func() bool { return b.holds.Load() && n.raft.LastIndex() > before }, "more come")
	eventually(t, func() bool {
		return n.LeaderID() != "" && n.raft.CommitIndex() == n.raft.LastIndex() && n.fsm.Applied() == n.raft.LastIndex()
	}, "it has what came")
	require.ErrorContains(t, n.Ready(), "committed entries")
	b.open()
	ready(t, n)
	require.GreaterOrEqual(t, n.fsm.Applied()+readyLag, leader.raft.CommitIndex())
}
