package raftnode

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// gate holds up the storing of one value.
type gate struct {
	promises
	at            []byte
	entered, pass chan struct{}
}

func (g *gate) Set(key, value []byte) error {
	if bytes.Equal(key, keyCurrentTerm) && bytes.HasPrefix(value, g.at) {
		select {
		case <-g.entered:
		default:
			close(g.entered)
		}
		<-g.pass
	}
	return g.promises.Set(key, value)
}

// raft handles heartbeats beside its main loop. While a node stored the term of a vote it
// took the heartbeat of an earlier term, was in that one then, and took entries from the
// leader it had voted down.
func TestVoterTakesNothingFromAnEarlierTerm(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	c.settled()
	at := c.followers()[0]
	c.stopAll()
	c.configs[at].HeartbeatTimeout, c.configs[at].ElectionTimeout = time.Minute, time.Minute
	n := c.start(at)
	var others []raft.RPCHeader
	for _, s := range n.servers() {
		if s.ID != n.id() {
			others = append(others, raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(s.ID), Addr: n.transport.EncodePeer(s.ID, s.Address)})
		}
	}
	term, last := n.raft.CurrentTerm(), n.raft.LastIndex()
	earlier, later := term+1, term+2
	g := &gate{promises: n.log.promises, at: binary.BigEndian.AppendUint64(nil, later), entered: make(chan struct{}), pass: make(chan struct{})}
	n.log.promises = g

	vote := make(chan raft.RPCResponse, 1)
	n.transport.consumer <- raft.RPC{RespChan: vote, Command: &raft.RequestVoteRequest{RPCHeader: others[0], Term: later, LastLogIndex: last + 10, LastLogTerm: term}}
	<-g.entered
	n.log.before.Store(&raft.Log{}) // gone once a term is being stored
	beat := make(chan raft.RPCResponse, 1)
	go n.transport.heartbeat(raft.RPC{RespChan: beat, Command: &raft.AppendEntriesRequest{RPCHeader: others[1], Term: earlier}})
	for range 100 { // as it was; else it waits for its turn
		if n.log.before.Load() == nil || wait(t.Context(), 2*time.Millisecond) != nil {
			break
		}
	}
	close(g.pass)
	require.True(t, (<-vote).Response.(*raft.RequestVoteResponse).Granted)
	<-beat
	appended := make(chan raft.RPCResponse, 1)
	n.transport.consumer <- raft.RPC{RespChan: appended, Command: &raft.AppendEntriesRequest{
		RPCHeader: others[1], Term: earlier, Entries: []*raft.Log{{Index: last + 1, Term: earlier, Type: raft.LogNoop}},
	}}
	said := (<-appended).Response.(*raft.AppendEntriesResponse)
	require.False(t, said.Success)
	require.Equal(t, later, said.Term)
	require.Equal(t, later, n.raft.CurrentTerm())
}
