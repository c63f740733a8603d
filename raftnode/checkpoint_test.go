package raftnode

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func startChecked(t *testing.T, changes ...func(*Config)) *cluster {
	t.Helper()
	c := startCluster(t, func(c *Config) {
		c.CheckpointInterval = 50 * time.Millisecond
		for _, change := range changes {
			change(c)
		}
	})
	createTopic(t, c.nodes[c.leader()])
	return c
}

// diverge adds a row that no log entry made.
func diverge(t *testing.T, n *Node, key string) {
	t.Helper()
	require.NoError(t, n.store.Update(func(tx *store.WriteTx) error { return tx.PutFence(key, 1) }))
}

// requireStopped waits until the node has stopped over its state, and looks what it
// says and remembers.
func requireStopped(t *testing.T, n *Node, says string) {
	t.Helper()
	eventually(t, func() bool { return n.Err() != nil }, "stops")
	<-n.Stopped()
	require.ErrorIs(t, n.Err(), ErrDiverged)
	require.ErrorContains(t, n.Err(), says)
	_, err := n.View(t.Context(), ReadOptions{Level: Stale}, func(*store.ReadTx) error { return nil })
	requireCode(t, err, ops.NodeCorrupt)
	id, err := readIdentity(n.config.DataDir)
	require.NoError(t, err)
	require.Equal(t, n.Err().Error(), id.Corrupt)
}

func TestMinorityStops(t *testing.T) {
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			c := startChecked(t)
			bad := c.leader()
			if who == "follower" {
				bad = c.followers()[0]
			}
			diverge(t, c.nodes[bad], "stray")
			if who == "leader" { // it may stop before it answers
				_, _ = commit(t.Context(), c.nodes[bad], "a", 0)
			} else {
				mustCommit(t, c.nodes[c.leader()], "a", 0)
			}
			requireStopped(t, c.nodes[bad], "a majority of the voters")
			next := c.otherLeader(bad)
			mustCommit(t, c.nodes[next], "b", 0)
			for i, n := range c.nodes {
				if i != bad {
					require.NoError(t, n.Err())
				}
			}
		})
	}
}

func TestAllStopWithoutAMajority(t *testing.T) {
	c := startChecked(t)
	for i, n := range c.nodes {
		diverge(t, n, fmt.Sprint(i))
	}
	_, _ = commit(t.Context(), c.nodes[c.leader()], "a", 0)
	for _, n := range c.nodes {
		requireStopped(t, n, "no majority")
	}
}

func TestIdleClusterLogsNothing(t *testing.T) {
	c := startChecked(t, steady)
	leader := c.nodes[c.leader()]
	digest := c.settled().Digest
	eventually(t, func() bool { return leader.checkpoints.last().Digest == digest }, "compared")
	last := leader.raft.LastIndex()
	require.Never(t, func() bool { return leader.raft.LastIndex() != last }, 500*time.Millisecond, 10*time.Millisecond)
	mustCommit(t, leader, "a", 0)
	eventually(t, func() bool { return leader.raft.LastIndex() == last+2 }, "compared again")
}

func TestJudgeDigests(t *testing.T) {
	digests := make([]store.Digest, 3)
	for i := range digests {
		require.NoError(t, digests[i].UnmarshalText(fmt.Appendf(nil, "%032x", i+1)))
	}
	const silent = -1
	for _, c := range []struct {
		said []int // digest of each voter
		mine int
		want verdictOnState
	}{
		{[]int{0}, 0, sameAsMajority},
		{[]int{0, 0, silent}, 0, sameAsMajority},
		{[]int{0, silent, silent}, 0, undecided},
		{[]int{0, 1, silent}, 0, undecided},
		{[]int{0, 1, 1}, 0, inMinority},
		{[]int{0, 1, 1}, 1, sameAsMajority},
		{[]int{0, 1, 2}, 0, divided},
		{[]int{0, 1}, 0, divided},
		{[]int{0, 0, 1, 1}, 0, divided},
		{[]int{0, 0, 1, 1, silent}, 0, undecided},
		{[]int{0, 0, 1, 2, silent}, 1, undecided},
		{[]int{0, 1, 2, silent, silent}, 0, undecided},
		{[]int{0, 1, 2, 0, 1}, 0, divided},
		{[]int{1, 1, silent}, 0, inMinority}, // a learner
		{[]int{0, 1, 1, 1, silent}, 0, inMinority},
	} {
		var all []raft.Server
		said := map[raft.ServerID]store.Digest{}
		for i, d := range c.said {
			id := raft.ServerID(fmt.Sprint(i))
			all = append(all, raft.Server{ID: id})
			if d != silent {
				said[id] = digests[d]
			}
		}
		require.Equal(t, c.want, judge(all, said, digests[c.mine]).verdict, "%v", c)
	}
}
