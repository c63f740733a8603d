package raftnode

import (
	"slices"

	"github.com/hashicorp/raft"
)

// judgeByLog lets a candidate have this node's vote that is a voter by its own
// configuration and not, or not yet, by the one here: a majority may have made it one
// while this node lagged. Raft (Ongaro's thesis, 4.1) has voters look at the candidate's
// term and log alone, or the only node with all that was committed might never lead;
// hashicorp/raft refuses it by its id. The id serves nothing else in these messages, so
// this node's own stands in for it.
func (n *Node) judgeByLog(rpc *raft.RPC) {
	var from *raft.RPCHeader
	switch m := rpc.Command.(type) {
	case *raft.RequestVoteRequest:
		from = &m.RPCHeader
	case *raft.RequestPreVoteRequest:
		from = &m.RPCHeader
	default:
		return
	}
	isVoter := func(s raft.Server) bool { return string(s.ID) == string(from.ID) && s.Suffrage == raft.Voter }
	if len(from.ID) > 0 && !slices.ContainsFunc(n.servers(), isVoter) {
		from.ID = []byte(n.id())
	}
}
