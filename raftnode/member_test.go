package raftnode

import (
	"fmt"
	"slices"
	"time"

	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
)

// add prepares a further node that knows the members, and starts it.
func (c *cluster) add(id string) int {
	c.t.Helper()
	config := testConfig(c.t, id)
	config.RaftAddr = freeAddr(c.t)
	config.Peers = append([]Peer{{ID: id, Addr: config.RaftAddr}}, c.configs[0].Peers...)
	c.configs, c.nodes = append(c.configs, config), append(c.nodes, nil)
	c.start(len(c.configs) - 1)
	return len(c.configs) - 1
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := loopback.FreeAddr()
	require.NoError(t, err)
	return addr
}

// status is the leader's view, by name.
func (c *cluster) status() map[string]MemberStatus {
	c.t.Helper()
	all := map[string]MemberStatus{}
	s, err := c.nodes[c.leader()].Cluster(c.t.Context())
	require.NoError(c.t, err)
	for _, m := range s.Members {
		all[m.ID] = m
	}
	return all
}

// heard waits until the leader has heard all the others: two of three are enough for
// it to lead.
func (c *cluster) heard() {
	c.t.Helper()
	leader := c.nodes[c.leader()]
	for _, i := range c.followers() {
		eventually(c.t, func() bool { return leader.reachable(c.nodes[i].id()) }, "was asked")
	}
}

func (c *cluster) voters(want ...string) {
	c.t.Helper()
	eventually(c.t, func() bool {
		var got []string
		for _, s := range voters(c.nodes[c.leader()].servers()) {
			got = append(got, nameOf(s.ID))
		}
		return strings.Join(got, " ") == strings.Join(want, " ")
	}, "the voters are %v", want)
}

func (c *cluster) wipe(i int) {
	c.t.Helper()
	c.stop(i)
	require.NoError(c.t, os.RemoveAll(c.configs[i].DataDir))
}

func TestJoin(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	at := c.add("n4")
	waitsFor(t, c.nodes[at], "n4 is not a member yet: run cpnode cluster join n4="+c.configs[at].RaftAddr)
	leader := c.nodes[c.leader()]
	instance, err := leader.Join(t.Context(), Peer{ID: "n4", Addr: c.configs[at].RaftAddr})
	require.NoError(t, err)
	require.Equal(t, c.nodes[at].identity.Load().Instance.String(), instance)
	ready(t, c.nodes[at])
	c.voters("n1", "n2", "n3", "n4")
	_, err = leader.Join(t.Context(), Peer{ID: "n4", Addr: c.configs[at].RaftAddr})
	require.NoError(t, err)
	c.settled()
}

func TestWhoMayNotJoin(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	join := func(p Peer) error { _, err := leader.Join(t.Context(), p); return err }

	stranger := testConfig(t, "n4")
	stranger.RaftAddr = freeAddr(t)
	stranger.Peers = []Peer{{ID: "n4", Addr: stranger.RaftAddr}, {ID: "n9", Addr: freeAddr(t)}}
	openNode(t, stranger)
	require.ErrorContains(t, join(Peer{"n4", stranger.RaftAddr}), "none of which is a member")
	require.ErrorContains(t, join(Peer{"n5", stranger.RaftAddr}), "is node n4, not n5")

	foreign := openNode(t, testConfig(t, "n6"))
	ready(t, foreign)
	require.ErrorContains(t, join(Peer{"n6", foreign.RaftAddr()}), "it belongs to cluster "+foreign.Status().ClusterID)
	requireCode(t, join(Peer{"n7", "n7"}), ops.InvalidRequest)
	requireCode(t, join(Peer{"n7", freeAddr(t)}), ops.InvalidRequest)
	older := *c.nodes[c.followers()[0]].report(leader.self())
	older.Cluster, older.NodeID, older.FeatureLevel = clusterID{}, "n8", ops.FeatureLevel-1
	require.ErrorContains(t, leader.mayJoin(&older), "node n8 runs a release that supports feature level")
	older.FeatureLevel++
	require.NoError(t, leader.mayJoin(&older))
	c.voters("n1", "n2", "n3")

	follower := c.nodes[c.followers()[0]]
	_, err := follower.Join(t.Context(), Peer{ID: "n4", Addr: stranger.RaftAddr})
	require.ErrorIs(t, err, ErrNotLeader)
	require.ErrorIs(t, follower.Remove(t.Context(), "n1", false), ErrNotLeader)
	require.ErrorIs(t, follower.Transfer(t.Context(), ""), ErrNotLeader)
	_, err = follower.Cluster(t.Context())
	require.ErrorIs(t, err, ErrNotLeader)
}

// A learner whose state is behind has no vote.
func TestPromotionOnlyWhenCaughtUp(t *testing.T) {
	c := startCluster(t, steady)
	createTopic(t, c.nodes[c.leader()])
	at := c.add("n4")
	release := block(t, c.nodes[at])
	leader := c.nodes[c.leader()]
	for i := range readyLag + 100 {
		mustCommit(t, leader, fmt.Sprint(i), int32(i%4))
	}
	_, err := leader.Join(t.Context(), Peer{ID: "n4", Addr: c.configs[at].RaftAddr})
	require.NoError(t, err)
	eventually(t, func() bool { return leader.polls.of(c.nodes[at].id()).report != nil }, "it is asked")
	first := leader.polls.of(c.nodes[at].id()).at
	eventually(t, func() bool {
		p := leader.polls.of(c.nodes[at].id())
		require.Zero(t, p.caughtUp)
		return p.at.Sub(first) > 5*leader.config.pollInterval
	}, "it answers")
	require.Equal(t, "learner", c.status()["n4"].Role)
	release()
	c.voters("n1", "n2", "n3", "n4")
}

func TestWipedNodeComesBackAsALearner(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	wiped := c.followers()[0]
	before := c.nodes[wiped].id()
	c.wipe(wiped)
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	n := c.start(wiped)
	ready(t, n)
	require.NotEqual(t, before, n.id())
	eventually(t, func() bool { return c.status()[n.config.NodeID].Role == "voter" && len(c.status()) == 3 }, "it votes again")
	eventually(t, func() bool { return c.status()[n.config.NodeID].Addr == c.configs[wiped].RaftAddr }, "under its address")
	c.settled()

	// And once more, the leader this time.
	wiped = c.leader()
	c.wipe(wiped)
	n = c.start(wiped)
	ready(t, n)
	eventually(t, func() bool {
		all := voters(c.nodes[c.leader()].servers())
		_, ok := findServer(all, n.id())
		return ok && len(all) == 3
	}, "it votes again")
	mustCommit(t, c.nodes[c.leader()], "b", 0)
	c.settled()
}

// What a directory last said before it was wiped does not count against the one
// that takes its place, though the leader has heard it a moment ago.
func TestNodeThatIsWipedAndStartedAtOnceIsNotRemovedAgain(t *testing.T) {
	c := startCluster(t, func(config *Config) { config.pollInterval = time.Second })
	createTopic(t, c.nodes[c.leader()])
	wiped := c.followers()[0]
	old := c.nodes[wiped].id()
	eventually(t, func() bool { return c.nodes[c.leader()].reachable(old) }, "the leader has heard it")
	c.wipe(wiped)
	n := c.start(wiped)
	eventually(t, func() bool { return len(c.nodes[c.leader()].servers()) == 4 }, "it is taken back")
	eventually(t, func() bool { return len(c.nodes[c.leader()].servers()) == 3 }, "one of the two is removed")
	_, member := findServer(c.nodes[c.leader()].servers(), n.id())
	require.True(t, member, "it is the other one")
	eventually(t, func() bool { return len(voters(c.nodes[c.leader()].servers())) == 3 }, "it votes")
}

// A node that has lost its data, and nobody takes back yet, does not read out of its
// empty state that what it knew was never there.
func TestWipedNodeAnswersNoReads(t *testing.T) {
	c := startCluster(t, func(c *Config) { c.ReadTimeout = 200 * time.Millisecond })
	createTopic(t, c.nodes[c.leader()])
	wiped := c.followers()[0]
	c.stop(c.leader())
	c.wipe(wiped)
	n := c.start(wiped)
	waitsFor(t, n, "has lost its data")
	_, _, err := highWatermark(t.Context(), n, ReadOptions{Level: Stale}, 0)
	requireCode(t, err, ops.NotCaughtUp)
	_, _, err = highWatermark(t.Context(), n, ReadOptions{}, 0)
	require.ErrorIs(t, err, ErrNotLeader)
}

// A node is not replaced while it runs.
func TestSecondNodeOfANameIsNotReadmitted(t *testing.T) {
	c := startCluster(t, nil)
	at := c.followers()[0]
	twin := testConfig(t, c.configs[at].NodeID)
	twin.RaftAddr = freeAddr(t)
	twin.Peers = slices.Clone(c.configs[at].Peers)
	twin.Peers[at].Addr = twin.RaftAddr
	n := openNode(t, twin)
	waitsFor(t, n, "runs elsewhere, at "+c.configs[at].RaftAddr)
	require.Empty(t, n.servers())
	require.Len(t, c.status(), 3)
}

// Two of three that lost their data are a majority by name. They must not form or
// lead anything: the third remembers what was acknowledged.
func TestTwoWipedNodesDoNotOutvoteTheThird(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	before := c.settled()
	survivor := c.leader()
	for i := range c.nodes {
		if i != survivor {
			c.wipe(i)
		}
	}
	for i := range c.nodes {
		if i != survivor {
			c.start(i)
		}
	}
	for i := range c.nodes {
		if i != survivor {
			waitsFor(t, c.nodes[i], "2 of 3 voters have lost their data: see cpnode recover")
		}
	}
	eventually(t, func() bool { return c.nodes[survivor].Ready() != nil }, "the survivor leads no more")
	term := c.nodes[survivor].raft.CurrentTerm()
	candidacies := func() string { return c.nodes[survivor].raft.Stats()["state"] }
	eventually(t, func() bool { return candidacies() == "Candidate" }, "the survivor asks for votes")
	waitsFor(t, c.nodes[(survivor+1)%3], "2 of 3")
	for i, n := range c.nodes {
		if i != survivor {
			require.Zero(t, n.raft.LastIndex())
			require.Zero(t, n.raft.CurrentTerm(), "it was asked for no vote")
			require.Empty(t, n.servers())
			require.Empty(t, n.Status().ClusterID)
		}
	}
	require.Equal(t, term, c.nodes[survivor].raft.CurrentTerm(), "it got no vote before an election")
	require.Equal(t, before, meta(t, c.nodes[survivor]))
}

func TestRemove(t *testing.T) {
	c := startCluster(t, steady)
	createTopic(t, c.nodes[c.leader()])
	requireCode(t, c.nodes[c.leader()].Remove(t.Context(), "n9", false), ops.InvalidRequest)

	c.heard()
	gone := c.followers()[0]
	require.NoError(t, c.nodes[c.leader()].Remove(t.Context(), c.configs[gone].NodeID, false))
	waitsFor(t, c.nodes[gone], "was removed from the cluster")
	require.Len(t, c.status(), 2)
	term := c.nodes[c.leader()].raft.CurrentTerm()

	// It comes back, knows it, and disturbs nobody.
	c.stop(gone)
	n := c.start(gone)
	waitsFor(t, n, "was removed from the cluster")
	require.NoError(t, n.Err())
	_, err := c.nodes[c.leader()].Join(t.Context(), Peer{ID: c.configs[gone].NodeID, Addr: c.configs[gone].RaftAddr})
	require.ErrorContains(t, err, "was removed")
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	require.Equal(t, term, c.nodes[c.leader()].raft.CurrentTerm())

	// The leader hands over before it goes; who is left elects itself at once.
	old := c.leader()
	require.NoError(t, c.nodes[old].Remove(t.Context(), c.configs[old].NodeID, false))
	waitsFor(t, c.nodes[old], "was removed from the cluster")
	c.stop(old)
	last := c.leader()
	require.Len(t, c.status(), 1)
	requireCode(t, c.nodes[last].Remove(t.Context(), c.configs[last].NodeID, true), ops.InvalidRequest)
	mustCommit(t, c.nodes[last], "b", 0)
	c.stop(last)
	neverElects(&c.configs[last])
	ready(t, c.start(last))

	// With its directory emptied, the first one may join again.
	c.wipe(gone)
	c.start(gone)
	waitsFor(t, c.nodes[gone], "is not a member yet")
	_, err = c.nodes[last].Join(t.Context(), Peer{ID: c.configs[gone].NodeID, Addr: c.configs[gone].RaftAddr})
	require.NoError(t, err)
	eventually(t, func() bool { return len(voters(c.nodes[c.leader()].servers())) == 2 }, "two voters")
	c.settled()
}

// The leader may have come after the list of peers that a node is started with.
func TestLeaderThatANodeWasNotToldOf(t *testing.T) {
	c := startCluster(t, nil)
	at := c.add("n4")
	_, err := c.nodes[c.leader()].Join(t.Context(), Peer{ID: "n4", Addr: c.configs[at].RaftAddr})
	require.NoError(t, err)
	c.voters("n1", "n2", "n3", "n4")
	lost := 0
	require.NoError(t, c.nodes[c.leader()].Transfer(t.Context(), "n4"))
	eventually(t, func() bool { return c.nodes[at].leading() != nil }, "n4 leads")
	c.wipe(lost)
	ready(t, c.start(lost))
	c.voters("n2", "n3", "n4", "n1")
}

// A node is removed with both of its directories while one replaces the other.
func TestRemoveWhileBeingReplaced(t *testing.T) {
	c := startCluster(t, func(config *Config) { config.pollInterval = time.Hour }) // the leader's rules stand still
	leader := c.nodes[c.leader()]
	c.heard()
	lost := c.followers()[0]
	c.wipe(lost)
	c.start(lost)
	eventually(t, func() bool { return len(leader.servers()) == 4 }, "the new directory is beside the old one")
	require.NoError(t, leader.Remove(t.Context(), c.configs[lost].NodeID, false))
	require.Len(t, leader.servers(), 2)
	require.Len(t, voters(leader.servers()), 2)
}

// A node that slept through its removal finds out when it comes back.
func TestRemovedWhileAway(t *testing.T) {
	c := startCluster(t, steady)
	away := c.followers()[0]
	c.stop(away)
	require.NoError(t, c.nodes[c.leader()].Remove(t.Context(), c.configs[away].NodeID, false))
	term := c.nodes[c.leader()].raft.CurrentTerm()
	waitsFor(t, c.start(away), "was removed from the cluster")
	require.Equal(t, term, c.nodes[c.leader()].raft.CurrentTerm())
}

func TestRemovalThatWouldCostTheMajority(t *testing.T) {
	c := startCluster(t, nil)
	down := c.followers()[0]
	c.stop(down)
	leader := c.nodes[c.leader()]
	eventually(t, func() bool { return !c.status()[c.configs[down].NodeID].Reachable }, "it is missed")
	s, err := leader.Cluster(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.FailuresTolerated)
	other := c.configs[c.followers()[0]].NodeID
	requireCode(t, leader.Remove(t.Context(), other, false), ops.InvalidRequest)
	require.NoError(t, leader.Remove(t.Context(), c.configs[down].NodeID, false), "the one that is down may go")
}

func TestTransfer(t *testing.T) {
	c := startCluster(t, nil)
	leader, to := c.leader(), c.followers()[1]
	requireCode(t, c.nodes[leader].Transfer(t.Context(), "n9"), ops.InvalidRequest)
	requireCode(t, c.nodes[leader].Transfer(t.Context(), c.configs[leader].NodeID), ops.InvalidRequest)
	require.NoError(t, c.nodes[leader].Transfer(t.Context(), c.configs[to].NodeID))
	eventually(t, func() bool { return c.nodes[to].leading() != nil }, "it leads")
	c.status()
	eventually(t, func() bool { return c.nodes[to].reachable(c.nodes[leader].id()) }, "it has asked the others")
	require.NoError(t, c.nodes[to].Transfer(t.Context(), ""))
	require.NotEqual(t, to, c.leader())
}

// A leader that stops handed over to whoever's log ends last, also where the disk is full
// or the state is missing.
func TestSuccessorIsAVoterThatIsFit(t *testing.T) {
	var free [3]atomic.Int64
	at := 0
	c := startCluster(t, func(c *Config) {
		free[at].Store(1000)
		c.DiskMinFree, c.Surroundings.FreeBytes = 100, free[at].Load
		at++
	})
	leader, others := c.nodes[c.leader()], c.followers()
	heard := func(fit, unfit unfitKind) func() bool {
		return func() bool {
			a, b := leader.polls.of(c.nodes[others[0]].id()).report, leader.polls.of(c.nodes[others[1]].id()).report
			return a != nil && b != nil && a.Unfit == fit && b.Unfit == unfit && a.LastIndex == b.LastIndex
		}
	}
	free[others[1]].Store(10) // of two whose logs end alike the one that was taken
	eventually(t, heard("", unfitSpace), "the leader has heard of it")
	to, err := leader.successor("")
	require.NoError(t, err)
	require.Equal(t, c.nodes[others[0]].id(), to.ID)
	free[others[0]].Store(10)
	eventually(t, heard(unfitSpace, unfitSpace), "no other is fit")
	to, err = leader.successor("")
	require.NoError(t, err)
	require.NotEmpty(t, to.ID, "one that is not fit is better than none")
}

// raft refuses writes while it waits for the one that is to lead, also long after the
// attempt was given up: a voter that does not answer is not waited for.
func TestTransferToASilentVoterDoesNotHoldUpWrites(t *testing.T) {
	c := startCluster(t, nil)
	leader, silent := c.nodes[c.leader()], c.followers()[0]
	createTopic(t, leader)
	c.stop(silent)
	mustCommit(t, leader, "a", 0)
	requireCode(t, leader.Transfer(t.Context(), c.configs[silent].NodeID), ops.NoLeader)
	mustCommit(t, leader, "b", 0)
	ready(t, c.start(silent))
	eventually(t, func() bool { // the hand-over may end after it was given up
		return leader.Transfer(t.Context(), c.configs[silent].NodeID) == nil || c.nodes[silent].leading() != nil
	}, "it takes over once it is back")
}

func TestChangedAddress(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	at := c.followers()[0]
	id := c.nodes[at].id()
	c.stop(at)
	c.configs[at].RaftAddr = freeAddr(t)
	c.configs[at].Peers = slices.Clone(c.configs[at].Peers)
	c.configs[at].Peers[at].Addr = c.configs[at].RaftAddr
	ready(t, c.start(at))
	require.Equal(t, id, c.nodes[at].id())
	eventually(t, func() bool { return c.status()[c.configs[at].NodeID].Addr == c.configs[at].RaftAddr }, "the new address is written down")
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	c.settled()

	// Now all of them at once.
	c.stopAll()
	var peers []Peer
	for i := range c.configs {
		c.configs[i].RaftAddr = freeAddr(t)
		peers = append(peers, Peer{c.configs[i].NodeID, c.configs[i].RaftAddr})
	}
	for i := range c.configs {
		c.configs[i].Peers = peers
		c.start(i)
	}
	for _, n := range c.nodes {
		ready(t, n)
	}
	eventually(t, func() bool { return samePeers(c.nodes[c.leader()].Status().Peers, peers) }, "all are written down")
	mustCommit(t, c.nodes[c.leader()], "b", 0)
	c.settled()
}

func TestDeadNodeCleanup(t *testing.T) {
	c := startCluster(t, func(c *Config) {
		steady(c)
		c.DeadNodeCleanup = 3 * time.Second
	})
	at := c.add("n4")
	_, err := c.nodes[c.leader()].Join(t.Context(), Peer{ID: "n4", Addr: c.configs[at].RaftAddr})
	require.NoError(t, err)
	c.voters("n1", "n2", "n3", "n4")
	down := c.followers()
	c.stop(down[0])
	eventually(t, func() bool { return len(c.status()) == 3 }, "the dead one is removed")
	require.NotContains(t, c.status(), c.configs[down[0]].NodeID)
	c.stop(down[1])
	leader := c.nodes[c.leader()]
	eventually(t, func() bool {
		return c.status()[c.configs[down[1]].NodeID].LastContact > 2*leader.config.DeadNodeCleanup
	}, "the next one is dead for long")
	require.Len(t, c.status(), 3, "three stay")
}
