package raftnode

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// verifyLeader is raft's own confirmation, for comparison.
func verifyLeader(_ context.Context, n *Node, _ *leadership) error {
	return n.raft.VerifyLeader().Error()
}

func TestReadsSeeWhatWasAnsweredBefore(t *testing.T) {
	for name, confirm := range map[string]confirmFunc{"term questions": askMajority, "VerifyLeader": verifyLeader} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, func(c *Config) { c.confirm = confirm })
			leader := c.nodes[c.leader()]
			createTopic(t, leader)
			var acked atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			var readers sync.WaitGroup
			var reads atomic.Int64
			for range 8 {
				readers.Go(func() {
					for ctx.Err() == nil {
						before := acked.Load()
						at, info, err := highWatermark(t.Context(), leader, ReadOptions{}, 0)
						if err != nil || at < before || info.Staleness != 0 {
							t.Errorf("read %d, acknowledged before %d: %v", at, before, err)
							return
						}
						reads.Add(1)
					}
				})
			}
			for i := range 50 {
				r := mustCommit(t, leader, fmt.Sprint(i), 0)
				acked.Store(r.Answer.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset + 10)
			}
			cancel()
			readers.Wait()
			require.Greater(t, reads.Load(), int64(50))
		})
	}
}

// One round serves all who asked before it began, and nobody who asked after.
func TestConfirmationIsShared(t *testing.T) {
	entered, leave := make(chan struct{}, 16), make(chan struct{})
	n := single(t, func(c *Config) {
		c.ReadTimeout = time.Minute
		c.confirm = func(context.Context, *Node, *leadership) error {
			entered <- struct{}{}
			<-leave
			return nil
		}
	})
	read := func(done chan<- error) {
		_, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
		done <- err
	}
	leaveAll := sync.OnceFunc(func() { close(leave) })
	defer leaveAll() // else the node could not be closed
	first, later := make(chan error, 1), make(chan error, 1)
	go read(first)
	<-entered // a round is under way: of first, or of the leader's own
	next := n.confirmer.join()
	for range 10 {
		require.Same(t, next, n.confirmer.join(), "all who ask meanwhile")
	}
	go read(later)
	leave <- struct{}{}
	<-entered
	require.Empty(t, later, "nobody is served by a round that began before")
	select {
	case <-next.done:
		t.Fatal("done before its round was")
	default:
	}
	require.NotSame(t, next, n.confirmer.join(), "it has begun")
	leaveAll()
	require.NoError(t, <-first)
	require.NoError(t, <-later)
	<-next.done
	require.NoError(t, next.err)
}

// A voter that has heard of a later term ends the reads of the leader before, even
// where raft has not told it yet.
func TestLaterTermEndsReads(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	createTopic(t, leader)
	for _, i := range c.followers() {
		c.nodes[i].log.sawTerm(leader.raft.CurrentTerm() + 1)
	}
	_, _, err := highWatermark(t.Context(), leader, ReadOptions{}, 0)
	require.ErrorIs(t, err, ErrNotLeader)
	_, err = leader.Propose(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{{9}}})
	require.ErrorIs(t, err, ErrNotLeader, "so is an answer that was decided by reading")
}

// A node that has itself heard of a later term does not lead, whatever raft says.
func TestOwnLaterTermEndsReads(t *testing.T) {
	n := single(t, nil)
	n.log.sawTerm(n.raft.CurrentTerm() + 1)
	_, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
	require.ErrorIs(t, err, ErrNotLeader)
}

func TestReadsOutliveOneFollower(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	createTopic(t, leader)
	gone := c.followers()[0]
	c.crash(gone)
	for range 20 {
		_, _, err := highWatermark(t.Context(), leader, ReadOptions{}, 0)
		require.NoError(t, err)
	}
	c.start(gone)
	c.crash(c.followers()[1-indexOf(c.followers(), gone)])
	eventually(t, func() bool {
		n := c.nodes[c.leader()]
		_, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
		return err == nil
	}, "the one that came back is asked")
}

func indexOf(list []int, x int) int {
	for i, v := range list {
		if v == x {
			return i
		}
	}
	return -1
}

func TestLeaderWithoutMajorityAnswersNoRead(t *testing.T) {
	c := startCluster(t, func(c *Config) { c.ReadTimeout = time.Second })
	at := c.leader()
	leader := c.nodes[at]
	createTopic(t, leader)
	for _, i := range c.followers() {
		c.crash(i)
	}
	_, _, err := highWatermark(t.Context(), leader, ReadOptions{}, 0)
	require.ErrorIs(t, err, ErrNotLeader)
	_, info, err := highWatermark(t.Context(), leader, ReadOptions{Level: Stale}, 0)
	require.NoError(t, err)
	eventually(t, func() bool { return leader.raft.State() != raft.Leader }, "it steps down")
	eventually(t, func() bool { return leader.Staleness() > 50*time.Millisecond }, "its state gets old: %v", info)
	_, _, err = highWatermark(t.Context(), leader, ReadOptions{Level: Stale, MaxStaleness: time.Millisecond}, 0)
	requireCode(t, err, ops.NotCaughtUp)
}

func TestStaleReads(t *testing.T) {
	c := startCluster(t, func(c *Config) { c.ReadTimeout = 300 * time.Millisecond })
	leader, follower := c.nodes[c.leader()], c.nodes[c.followers()[0]]
	createTopic(t, leader)
	r := mustCommit(t, leader, "a", 0)
	c.settled() // the one that is read may be the slower one

	at, info, err := highWatermark(t.Context(), follower, ReadOptions{Level: Stale, MinIndex: r.Index}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 10, at)
	require.Equal(t, r.Index, info.AppliedIndex)
	_, _, err = highWatermark(t.Context(), follower, ReadOptions{Level: Stale, MinIndex: r.Index + 1}, 0)
	requireCode(t, err, ops.NotCaughtUp)

	_, info, err = highWatermark(t.Context(), follower, ReadOptions{Level: Stale, MaxStaleness: 200 * time.Millisecond}, 0)
	require.NoError(t, err)
	require.Positive(t, info.Staleness)
	require.LessOrEqual(t, info.Staleness, 200*time.Millisecond)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = highWatermark(cancelled, follower, ReadOptions{Level: Stale, MinIndex: 1 << 40}, 0)
	require.ErrorIs(t, err, context.Canceled)
}

// A follower whose log goes on while its state does not is stale, though its
// leader lives.
func TestStalenessGrowsWhileTheStateStandsStill(t *testing.T) {
	c := startCluster(t, nil)
	leader, follower := c.nodes[c.leader()], c.nodes[c.followers()[0]]
	createTopic(t, leader)
	c.settled()
	release := block(t, follower)
	mustCommit(t, leader, "a", 0)
	eventually(t, func() bool { return follower.Staleness() > 300*time.Millisecond }, "stale")
	require.NotEmpty(t, follower.LeaderID())
	release()
	eventually(t, func() bool { s := follower.Staleness(); return s != Unknown && s < 100*time.Millisecond }, "fresh again")
}

func TestFreshness(t *testing.T) {
	reached := uint64(5)
	f := freshness{applied: func(commit uint64) bool { return commit <= reached }}
	say := func(term, commit uint64) {
		f.observe(&raft.RPC{Command: &raft.AppendEntriesRequest{Term: term, LeaderCommitIndex: commit}}, 3)
	}
	require.Equal(t, Unknown, f.staleness())
	say(3, 0) // a heartbeat
	say(2, 4) // of a leader that was replaced
	require.Equal(t, Unknown, f.staleness())
	say(3, 5)
	fresh := f.at
	require.False(t, fresh.IsZero())
	say(3, 7)
	say(3, 9)
	require.Equal(t, fresh, f.at, "not reached")
	require.EqualValues(t, 7, f.pending.commit)
	pending := f.pending.at
	reached = 8
	require.Positive(t, f.staleness())
	require.Equal(t, pending, f.at, "as new as the report of 7")
	reached = 9
	say(3, 9)
	require.True(t, f.at.After(pending))
}

func TestDamagedStateIsNotServed(t *testing.T) {
	n := single(t, nil)
	_, err := n.View(t.Context(), ReadOptions{}, func(*store.ReadTx) error { return fmt.Errorf("row: %w", store.ErrCorrupt) })
	requireCode(t, err, ops.NodeCorrupt)
	<-n.Stopped()
	_, _, err = highWatermark(t.Context(), n, ReadOptions{Level: Stale}, 0)
	requireCode(t, err, ops.NodeCorrupt)
	_, err = commit(t.Context(), n, "a", 0)
	requireCode(t, err, ops.NodeCorrupt)
	require.ErrorIs(t, n.Err(), store.ErrCorrupt)
	require.ErrorIs(t, n.Status().Fatal, store.ErrCorrupt)
	requireCode(t, n.Ready(), ops.NodeCorrupt)
}

// A leader whose state lags behind what it has committed says so.
func TestLeaderIsStaleWhileItsStateLags(t *testing.T) {
	n := single(t, nil)
	eventually(t, func() bool { return n.Staleness() == 0 }, "fresh")
	release := block(t, n)
	done := start(t, n, t.Context(), "a", 1)
	eventually(t, func() bool { return n.Staleness() > 3*watchInterval }, "stale")
	_, _, err := highWatermark(t.Context(), n, ReadOptions{Level: Stale, MaxStaleness: time.Millisecond}, 0)
	requireCode(t, err, ops.NotCaughtUp)
	release()
	require.NoError(t, <-done)
	eventually(t, func() bool { return n.Staleness() == 0 }, "fresh")
}
