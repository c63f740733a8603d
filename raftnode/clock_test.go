package raftnode

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// startSkewed starts a cluster whose clocks can be set wrong.
func startSkewed(t *testing.T) (*cluster, []*atomic.Int64) {
	t.Helper()
	var skews []*atomic.Int64
	c := startCluster(t, func(c *Config) {
		skew := &atomic.Int64{}
		skews = append(skews, skew)
		c.Now = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
		c.Registerer = prometheus.NewRegistry()
	})
	return c, skews
}

// requireSound checks that no entry was stamped by the wrong clock, and that the
// batch of an hour's retention is still there.
func requireSound(t *testing.T, c *cluster) {
	t.Helper()
	m := c.settled()
	require.Less(t, m.LastClockMs, time.Now().Add(time.Minute).UnixMilli())
	for _, n := range c.nodes {
		require.EqualValues(t, 1, meta(t, n).Totals.Batches)
	}
}

func retain(t *testing.T, n *Node) error {
	t.Helper()
	_, err := n.Propose(t.Context(), &ops.EnforceRetentionRequest{Requests: []ops.EnforceRetention{{
		TopicID: testTopic, Partition: 0, RetentionBytes: -1, RetentionMs: time.Hour.Milliseconds() / 2,
	}}, MaxBatchesPerRequest: 10})
	return err
}

func commitNow(t *testing.T, n *Node) {
	t.Helper()
	r := commitOf("kept", 0)
	r.Batches[0].BatchMaxTimestamp = time.Now().UnixMilli()
	_, err := n.Propose(t.Context(), r)
	require.NoError(t, err)
}

func TestLeaderWhoseClockIsOff(t *testing.T) {
	c, skews := startSkewed(t)
	old := c.leader()
	createTopic(t, c.nodes[old])
	commitNow(t, c.nodes[old])
	skews[old].Store(int64(time.Hour))
	err := retain(t, c.nodes[old])
	requireCode(t, err, ops.NoLeader)
	require.ErrorContains(t, err, "clock")
	next := c.otherLeader(old)
	require.NoError(t, retain(t, c.nodes[next]))
	requireSound(t, c)
	eventually(t, func() bool {
		return testutil.ToFloat64(c.nodes[old].metrics.yields.WithLabelValues(string(unfitClock))) == 1
	}, "counted")

	// Elected again and again it does no harm, and says why.
	for range 3 {
		leader := c.nodes[c.leader()]
		to := c.nodes[old].self()
		eventually(t, func() bool { // raft may stop waiting before the other one is elected
			err := leader.transferOnce(t.Context(), raft.Server{ID: c.nodes[old].id(), Address: raft.ServerAddress(to.Addr)})
			return err == nil || leader.raft.State() != raft.Leader
		}, "handed over")
		for c.nodes[old].raft.State() == raft.Leader {
			require.Error(t, retain(t, c.nodes[old]))
		}
		require.NoError(t, retain(t, c.nodes[c.otherLeader(old)]))
		requireSound(t, c)
	}
	skews[old].Store(0)
	leader := c.nodes[c.leader()]
	require.NoError(t, leader.Transfer(t.Context(), c.nodes[old].config.NodeID))
	eventually(t, func() bool { return retain(t, c.nodes[old]) == nil }, "its clock is right again")
	requireSound(t, c)
}

// With no two clocks near each other nothing is proposed.
func TestNoMajorityOfClocks(t *testing.T) {
	c, skews := startSkewed(t)
	createTopic(t, c.nodes[c.leader()])
	commitNow(t, c.nodes[c.leader()])
	for i, s := range skews {
		s.Store(int64(i+1) * int64(time.Hour)) // also the leader's, which it sees at once
	}
	for i, n := range c.nodes {
		require.Error(t, retain(t, n), "%d", i)
	}
	skews[2].Store(int64(2 * time.Hour)) // two agree: theirs is the time
	eventually(t, func() bool {
		_, err := commit(t.Context(), c.nodes[c.leader()], fmt.Sprint(time.Now()), 1)
		return err == nil
	}, "a majority agrees")
	require.NotEqual(t, 0, c.leader(), "the one whose clock is off leads")
	require.Greater(t, c.settled().LastClockMs, time.Now().Add(50*time.Minute).UnixMilli())
}

func TestAgrees(t *testing.T) {
	n := &Node{config: Config{ClockMaxSkew: 10 * time.Second}}
	at := func(s ...float64) (all []clockOf) {
		for _, s := range s {
			all = append(all, clockOf{offset: time.Duration(s * float64(time.Second)), known: s < 1e6})
		}
		return all
	}
	const unknown = 1e7
	for _, c := range []struct {
		clocks []clockOf
		offset time.Duration
		want   bool
	}{
		{at(0), 0, true},
		{at(0, 10), 0, true},
		{at(0, 10.1), 0, false},
		{at(0, 3600, 3600), 0, false},
		{at(0, 3600, 3600), time.Hour, true},
		{at(0, -3600, 5), 0, true},
		{at(0, unknown, 5), 0, true},
		{at(0, unknown, unknown), 0, false},
		{at(0, unknown, 3600), 0, false},
		{at(0, 1, 3600, 3600), 0, false},
	} {
		require.Equal(t, c.want, n.agrees(c.clocks, c.offset), "%v", c)
	}
}
