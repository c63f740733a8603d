package raftnode

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A node became a voter while another one's log was full, and then the leader was lost:
// the one that lagged refused the other for ever, and nobody led. It judges by the log.
func TestVoterThatIsNotKnownAsOneIsElected(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	c.settled()
	c.stopAll()
	for i := range c.configs {
		c.configs[i].HeartbeatTimeout, c.configs[i].ElectionTimeout = time.Minute, time.Minute
	}
	n, other := c.start(0), c.start(1)
	last := n.raft.LastIndex()
	lastTerm, err := n.log.lastTerm()
	require.NoError(t, err)
	require.Empty(t, n.LeaderID())

	from := func(index uint64) (pre, vote bool) {
		h := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n9/new"), Addr: other.transport.EncodePeer("n9/new", "127.0.0.1:9")}
		term := n.raft.CurrentTerm() + 1
		var said raft.RequestPreVoteResponse
		require.NoError(t, other.transport.RequestPreVote(n.id(), "", &raft.RequestPreVoteRequest{RPCHeader: h, Term: term, LastLogIndex: index, LastLogTerm: lastTerm}, &said))
		var voted raft.RequestVoteResponse
		require.NoError(t, other.transport.RequestVote(n.id(), "", &raft.RequestVoteRequest{RPCHeader: h, Term: term, LastLogIndex: index, LastLogTerm: lastTerm}, &voted))
		return said.Granted, voted.Granted
	}
	pre, vote := from(last - 1)
	require.False(t, pre || vote, "it lacks an entry")
	pre, vote = from(last + 1)
	require.True(t, pre, "pre-vote")
	require.True(t, vote, "vote")
}
