package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// The rules of DESIGN.md, for a node that leads, or hears a leader, and one that
// cannot know who its members are.
func TestJudge(t *testing.T) {
	c := startCluster(t, steady)
	leader, follower := c.nodes[c.leader()], c.nodes[c.followers()[0]]
	cluster := leader.identity.Load().Cluster
	stranger := party{Cluster: cluster, NodeID: "n9", Instance: instanceID{9}}
	lostIts := follower.self()
	lostIts.Instance[0]++
	foreign := stranger
	foreign.Cluster[0]++
	empty := party{NodeID: "n9", Instance: instanceID{9}}
	for _, n := range []*Node{leader, follower} {
		member := c.nodes[c.followers()[1]].self()
		for _, kind := range []connKind{kindRaft, kindTerm, kindForward} {
			require.Equal(t, accepted, n.judge(kind, &hello{member, n.id()}))
			require.Equal(t, refusedWant, n.judge(kind, &hello{member, serverID(n.config.NodeID, instanceID{7})}))
			require.Equal(t, refusedWant, n.judge(kind, &hello{member, ""}))
			require.Equal(t, refusedMember, n.judge(kind, &hello{stranger, n.id()}))
			require.Equal(t, refusedMember, n.judge(kind, &hello{lostIts, n.id()}))
			require.Equal(t, refusedCluster, n.judge(kind, &hello{foreign, n.id()}))
			require.Equal(t, refusedCluster, n.judge(kind, &hello{empty, n.id()}))
		}
		require.Equal(t, accepted, n.judge(kindControl, &hello{stranger, ""}))
		require.Equal(t, accepted, n.judge(kindControl, &hello{empty, ""}))
		require.Equal(t, refusedCluster, n.judge(kindControl, &hello{foreign, ""}))
		require.Equal(t, refusedWant, n.judge(kindControl, &hello{member, serverID("n9", instanceID{})}))
	}

	// Its leader may be one that joined while it was away.
	followerAt := c.followers()[0]
	for i := range c.nodes {
		if i != followerAt {
			c.stop(i)
		}
	}
	n := c.nodes[followerAt]
	eventually(t, func() bool { return n.judge(kindRaft, &hello{stranger, n.id()}) == accepted }, "any node of the cluster may be its leader")
	require.Equal(t, refusedCluster, n.judge(kindRaft, &hello{foreign, n.id()}))

	config := testConfig(t, "n9")
	config.Peers = []Peer{{"n8", freeAddr(t)}, {"n9", freeAddr(t)}}
	alone := openNode(t, config)
	require.Equal(t, refusedForming, alone.judge(kindRaft, &hello{stranger, alone.id()}))
	require.Equal(t, accepted, alone.judge(kindControl, &hello{stranger, ""}))
}

// The side that dials believes no one else's yes.
func TestJudgeAnswer(t *testing.T) {
	wanted := party{Cluster: clusterID{1}, NodeID: "n2", Instance: instanceID{2}}
	mine := &hello{party{Cluster: clusterID{1}, NodeID: "n1"}, wanted.serverID()}
	require.NoError(t, judgeAnswer(kindRaft, mine, &answer{wanted, accepted}))
	for _, change := range []func(*answer){
		func(a *answer) { a.Instance[0]++ },
		func(a *answer) { a.NodeID = "n3" },
		func(a *answer) { a.Cluster[0]++ },
		func(a *answer) { a.Verdict = refusedMember },
	} {
		a := answer{wanted, accepted}
		change(&a)
		require.ErrorIs(t, judgeAnswer(kindRaft, mine, &a), errRefused)
	}
}

// A vote is for a directory: two nodes that swap addresses do not share one.
func TestVotesAreForDirectories(t *testing.T) {
	var tr transport
	a, b := serverID("n1", instanceID{1}), serverID("n1", instanceID{2})
	require.NotEqual(t, tr.EncodePeer(a, "h:1"), tr.EncodePeer(b, "h:1"))
	require.Equal(t, raft.ServerAddress("h:1"), tr.DecodePeer(tr.EncodePeer(a, "h:1")))
	addr, err := byIdentity{}.ServerAddr(a)
	require.NoError(t, err)
	require.EqualValues(t, a, addr)
}
