package raftnode

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// brake holds up appends to a raft log.
type brake struct {
	delay atomic.Int64

	mu    sync.Mutex
	shut  chan struct{} // appends wait until it is closed
	holds atomic.Bool   // an append waits
}

func (b *brake) pass() {
	time.Sleep(time.Duration(b.delay.Load()))
	b.mu.Lock()
	shut := b.shut
	b.mu.Unlock()
	if shut != nil {
		b.holds.Store(true)
		<-shut
		b.holds.Store(false)
	}
}

func (b *brake) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut = make(chan struct{})
}

// step lets through what waits, and holds up what comes next.
func (b *brake) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.shut)
	b.shut = make(chan struct{})
	b.holds.Store(false)
}

func (b *brake) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut != nil {
		close(b.shut)
		b.shut = nil
	}
}

// startBraked starts a cluster whose logs have brakes.
func startBraked(t *testing.T, slow time.Duration, changes ...func(*Config)) (*cluster, []*brake) {
	t.Helper()
	var brakes []*brake
	c := startCluster(t, func(c *Config) {
		b := &brake{}
		brakes = append(brakes, b)
		c.beforeAppend, c.LeaderSlowDisk, c.OutcomeTimeout = b.pass, slow, 2*time.Second
		c.Registerer = prometheus.NewRegistry()
		for _, change := range changes {
			change(c)
		}
	})
	t.Cleanup(func() { // before the nodes are closed
		for _, b := range brakes {
			b.delay.Store(0)
			b.open()
		}
	})
	createTopic(t, c.nodes[c.leader()])
	return c, brakes
}

// otherLeader waits until another node than old leads.
func (c *cluster) otherLeader(old int) int {
	c.t.Helper()
	at := old
	eventually(c.t, func() bool {
		for i, n := range c.nodes {
			if i != old && n.leading() != nil {
				at = i
			}
		}
		return at != old
	}, "another leader than %d", old)
	return at
}

func TestHungLeaderMakesWay(t *testing.T) {
	c, brakes := startBraked(t, 2*time.Second)
	old := c.leader()
	brakes[old].close()
	_, err := commit(t.Context(), c.nodes[old], "hung", 0)
	requireCode(t, err, ops.OutcomeUnknown)
	next := c.otherLeader(old)
	for i := range 20 {
		mustCommit(t, c.nodes[next], fmt.Sprint(i), 0)
	}
	require.True(t, brakes[old].holds.Load(), "its disk still hangs")
	require.ErrorContains(t, c.nodes[old].Ready(), "hangs")
	_, err = commit(t.Context(), c.nodes[old], "refused", 0)
	require.ErrorIs(t, err, ErrNotLeader)
	yields := func(kind unfitKind) float64 {
		return testutil.ToFloat64(c.nodes[old].metrics.yields.WithLabelValues(string(kind)))
	}
	require.EqualValues(t, 1, yields(unfitHangs)+yields(unfitStuck), "nothing committed may be seen before the hang")

	brakes[old].open()
	eventually(t, func() bool {
		return c.nodes[old].raft.State() == raft.Follower && !c.nodes[old].transport.layer.isMute()
	}, "comes back")
	ready(t, c.nodes[old])
	c.settled()
}

func TestSlowLeaderHandsOver(t *testing.T) {
	c, brakes := startBraked(t, time.Second)
	old := c.leader()
	brakes[old].delay.Store(int64(150 * time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = commit(ctx, c.nodes[old], fmt.Sprint(i), 0)
		}
	})
	next := c.otherLeader(old)
	cancel()
	load.Wait()
	// It is counted once raft has reported the end of the transfer.
	eventually(t, func() bool {
		return testutil.ToFloat64(c.nodes[old].metrics.yields.WithLabelValues(string(unfitSlow))) == 1
	}, "counted")
	require.False(t, c.nodes[old].transport.layer.isMute(), "it can hand over")
	mustCommit(t, c.nodes[next], "after", 0)
	c.settled()
}

// One slow write now and then is no reason.
func TestPace(t *testing.T) {
	p := pace{slow: 500 * time.Millisecond}
	now := time.Unix(0, 0)
	write := func(d time.Duration) {
		p.begin(now)
		now = now.Add(d)
		p.end(now)
	}
	requireRun := func(run, hangs time.Duration) {
		t.Helper()
		r, h := p.run(now)
		require.Equal(t, []time.Duration{run, hangs}, []time.Duration{r, h})
	}
	write(600 * time.Millisecond)
	requireRun(600*time.Millisecond, 0)
	write(499 * time.Millisecond)
	requireRun(0, 0)
	for range 4 {
		write(time.Second)
		now = now.Add(time.Hour) // nothing to write is no slowness
	}
	requireRun(4*time.Second, 0)
	p.begin(now)
	now = now.Add(400 * time.Millisecond)
	requireRun(4*time.Second, 0)
	now = now.Add(time.Second)
	requireRun(5400*time.Millisecond, 1400*time.Millisecond)
	p.forget()
	requireRun(1400*time.Millisecond, 1400*time.Millisecond)
	off := pace{}
	off.begin(now)
	run, _ := off.run(now.Add(time.Hour))
	require.Zero(t, run)
}

func TestSlowFollowerHoldsUpNobody(t *testing.T) {
	c, brakes := startBraked(t, 10*time.Second, steady)
	slow, leader := c.followers()[0], c.leader()
	brakes[slow].close()
	term := c.nodes[leader].leading().term
	for i := range 200 {
		mustCommit(t, c.nodes[leader], fmt.Sprint(i), 0)
	}
	require.True(t, brakes[slow].holds.Load())
	require.Equal(t, term, c.nodes[leader].leading().term)
	brakes[slow].open()
	c.settled()
}

// With the disks of both followers hung nothing is committed, though both answer
// heartbeats.
func TestLeaderWithoutCommitsStepsDown(t *testing.T) {
	c, brakes := startBraked(t, 1500*time.Millisecond)
	old := c.leader()
	term := c.nodes[old].leading().term
	for _, i := range c.followers() {
		brakes[i].close()
	}
	_, err := commit(t.Context(), c.nodes[old], "stuck", 0)
	requireCode(t, err, ops.OutcomeUnknown)
	eventually(t, func() bool { return c.nodes[old].raft.State() != raft.Leader }, "steps down")
	for _, b := range brakes {
		b.open()
	}
	next := c.leader()
	require.Greater(t, c.nodes[next].raft.CurrentTerm(), term)
	mustCommit(t, c.nodes[c.leader()], "after", 0)
	c.settled()
}

// A sole voter has nobody to make way for.
func TestSoleVoterStaysLeader(t *testing.T) {
	b := &brake{}
	n := single(t, func(c *Config) {
		c.beforeAppend, c.LeaderSlowDisk, c.OutcomeTimeout = b.pass, 200*time.Millisecond, 10*time.Second
	})
	b.close()
	t.Cleanup(b.open)
	done := start(t, n, t.Context(), "late", 1)
	eventually(t, func() bool { return n.unfit(time.Now()) != nil }, "hangs")
	require.NotNil(t, n.leading())
	b.open()
	require.NoError(t, <-done)
}

func TestProgress(t *testing.T) {
	var p progress
	now := time.Unix(100, 0)
	after := func(d time.Duration) time.Time { return now.Add(d) }
	require.Zero(t, p.stuck(now, 7, true))
	require.Equal(t, time.Second, p.stuck(after(time.Second), 7, true))
	require.Zero(t, p.stuck(after(2*time.Second), 8, true), "it moved")
	require.Zero(t, p.stuck(after(3*time.Second), 8, false), "nothing waits")
	require.Equal(t, time.Second, p.stuck(after(4*time.Second), 8, true))

	p.outcome(after(4*time.Second), false)
	p.outcome(after(14*time.Second), false)
	require.Equal(t, 10*time.Second, p.stuck(after(15*time.Second), 8, false), "raft refuses everything")
	p.outcome(after(15*time.Second), true)
	require.Zero(t, p.stuck(after(15*time.Second), 8, false))
}
