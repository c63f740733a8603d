package raftnode

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// A node that had stopped by itself closed its files under raft, which panics when it
// cannot read its log.
func TestCloseWaitsForRaft(t *testing.T) {
	var block, left atomic.Bool
	inside, leave := make(chan struct{}), make(chan struct{})
	config := testConfig(t, "n1")
	config.beforeAppend = func() {
		if block.CompareAndSwap(true, false) {
			close(inside)
			<-leave
			left.Store(true)
		}
	}
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	block.Store(true)
	go n.raft.Barrier(0)
	<-inside
	_ = n.fail(errors.New("for the test"))
	closed := make(chan bool)
	go func() {
		_ = n.Close()
		closed <- left.Load()
	}()
	select {
	case <-closed:
		t.Fatal("Close returned while raft's main loop was in an append")
	case <-time.After(100 * time.Millisecond):
	}
	close(leave)
	require.True(t, <-closed)
}

// An entry that came when the state was there followed ones that had been refused
// because it was not.
func TestNothingIsAppliedBehindAGap(t *testing.T) {
	n := openNode(t, testConfig(t, "n1"))
	ready(t, n)
	createTopic(t, n)
	mustCommit(t, n, "a", 0)
	var entry raft.Log
	require.NoError(t, n.log.GetLog(n.raft.LastIndex(), &entry))
	n.missing.Store(&missingState{there: make(chan struct{})})
	n.cancel()
	<-n.raftEnded
	machine := &timedFSM{n.fsm, n}
	for _, missing := range []bool{true, false} {
		entry.Index++
		next := entry
		require.ErrorContains(t, machine.ApplyBatch([]*raft.Log{&next})[0].(fsm.Result).Err, "shutting down")
		if missing {
			n.missing.Store(nil)
		}
	}
	require.Less(t, n.fsm.Answered(), entry.Index-1)
}

// The snapshot that raft took was recorded when the state was being closed, and each
// waited for the other.
func TestSnapshotIsTakenWhileTheStateIsClosed(t *testing.T) {
	n := openNode(t, testConfig(t, "n1"))
	ready(t, n)
	createTopic(t, n)
	s, err := n.fsm.Snapshot()
	require.NoError(t, err)
	sink, err := n.snapshots.Create(raft.SnapshotVersionMax, n.raft.AppliedIndex(), n.raft.CurrentTerm(), n.raft.GetConfiguration().Configuration(), 1, nil)
	require.NoError(t, err)
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	eventually(t, func() bool { return n.view(func(*store.ReadTx) error { return nil }) != nil }, "the state is closed, and readers do not wait for it")
	require.Error(t, s.Persist(sink))
	s.Release()
	require.NoError(t, <-closed)
}

// busy keeps the others from giving a state to a node, until the end of the test.
func (c *cluster) busy(without int) (free func()) {
	var held []*Backup
	for i, n := range c.nodes {
		if i != without {
			for range maxBackups {
				b, err := n.Backup()
				require.NoError(c.t, err)
				held = append(held, b)
			}
		}
	}
	free = func() {
		for _, b := range held {
			b.Release()
		}
	}
	c.t.Cleanup(free)
	return free
}

// damagedFollower is a follower that starts without its state, in a cluster whose leader
// then writes; whose entries in its log wait for the state if there are any.
func damagedFollower(t *testing.T, entries int) (c *cluster, from, n *Node, free func()) {
	c = startCluster(t, compacting)
	createTopic(t, c.nodes[c.leader()])
	l := c.load()
	l.more(200, "OK")
	l.stop()
	c.settled()
	from = c.nodes[c.leader()]
	bad := c.followers()[0]
	require.NoError(t, c.nodes[bad].raft.Snapshot().Error())
	c.stop(bad)
	damages["meta pages"](t, filepath.Join(c.configs[bad].DataDir, stateFile))
	free = c.busy(bad)
	for i := range entries {
		mustCommit(t, from, "late-"+string(rune('a'+i)), 0)
	}
	n = c.start(bad)
	require.NotNil(t, n.missing.Load())
	eventually(t, func() bool { return n.raft.LastIndex() == from.raft.LastIndex() }, "it has the log")
	return c, from, n, free
}

// A leader whose state was missing took the old cluster for a new one, by the empty
// state in its place, and wrote what only a new cluster begins with.
func TestLeaderWithoutItsStateFoundsNothing(t *testing.T) {
	c, from, n, free := damagedFollower(t, 0)
	last := from.raft.LastIndex()
	require.NoError(t, from.raft.LeadershipTransferToServer(n.id(), raft.ServerAddress(n.config.RaftAddr)).Error())
	eventually(t, func() bool { return n.raft.State() != raft.Leader || n.transport.layer.isMute() }, "it makes way")
	require.Nil(t, n.leading())
	free()
	ready(t, n)
	c.settled()
	leader := c.nodes[c.leader()]
	for i := last + 1; i <= leader.raft.LastIndex(); i++ {
		var entry raft.Log
		require.NoError(t, leader.log.GetLog(i, &entry))
		if entry.Type == raft.LogCommand {
			e, err := ops.Decode(entry.Data)
			require.NoError(t, err)
			require.NotZero(t, e.NowMs, "%T", e.Command)
		}
	}
}

// A leader whose state was missing, and with it what its log would have changed, knew no
// voter to make way for.
func TestLeaderWithoutItsStateMakesWay(t *testing.T) {
	_, from, n, _ := damagedFollower(t, 5)
	term := from.raft.CurrentTerm()
	require.NoError(t, from.raft.LeadershipTransferToServer(n.id(), raft.ServerAddress(n.config.RaftAddr)).Error())
	mute := n.transport.layer.isMute
	eventually(t, func() bool { return n.raft.State() == raft.Follower && n.raft.CurrentTerm() > term || mute() }, "it makes way")
	require.False(t, mute(), "it hands leadership over, and does not only fall silent")
	require.NotNil(t, n.missing.Load())
}

// A damaged state was not fetched while nobody wrote: raft's index of it also counted
// entries that no state ever sees.
func TestDamagedStateIsFetchedInAnIdleCluster(t *testing.T) {
	c := startCluster(t, func(c *Config) { compacting(c); c.TrailingLogs = 1 })
	createTopic(t, c.nodes[c.leader()])
	l := c.load()
	l.more(200, "OK")
	l.stop()
	c.settled()
	old := c.leader()
	require.NoError(t, c.nodes[old].Transfer(t.Context(), ""))
	c.otherLeader(old)
	bad := c.followers()[0]
	leader, n := c.nodes[c.leader()], c.nodes[bad]
	eventually(t, func() bool { return n.raft.AppliedIndex() == leader.raft.LastIndex() }, "the new leader's own entry has come")
	require.NoError(t, n.raft.Snapshot().Error())
	at, err := fsm.RecordedPosition(n.store)
	require.NoError(t, err)
	require.Greater(t, at.Index, n.fsm.Applied())
	c.stop(bad)
	damages["meta pages"](t, filepath.Join(c.configs[bad].DataDir, stateFile))
	before := leader.raft.LastIndex()
	n = c.start(bad)
	eventually(t, func() bool { return n.missing.Load() == nil }, "fetched")
	require.Equal(t, before, leader.raft.LastIndex(), "without another entry")
	c.settled()
}

// raft opened a snapshot that could not be sent again and again while it handed
// leadership over, which stops simulated time.
func TestSnapshotThatDoesNotOpenIsWaitedFor(t *testing.T) {
	began := time.Now()
	n := openNode(t, testConfig(t, "n1"))
	for range 5 {
		n.snapshots.given = "1-1"
		_, _, err := n.snapshots.Open("1-1")
		require.ErrorIs(t, err, errGivenUp)
	}
	require.GreaterOrEqual(t, time.Since(began), 5*openRetry)
	require.Empty(t, n.snapshots.given, "raft asks once")
}
