package raftnode

import (
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

// nodeReport is what a node says of itself, and of the cluster as it knows it.
type nodeReport struct {
	party
	HTTPAddr string `json:"http_addr,omitempty"`
	Problem  string `json:"problem,omitempty"` // why it has stopped
	Removed  bool   `json:"removed,omitempty"`

	Role         string        `json:"role"`
	Term         uint64        `json:"term"`
	Leader       raft.ServerID `json:"leader,omitempty"`
	LastIndex    uint64        `json:"last_index"`
	CommitIndex  uint64        `json:"commit_index"`
	AppliedIndex uint64        `json:"applied_index"`
	FeatureLevel uint64        `json:"feature_level"` // supported
	ClockMs      int64         `json:"clock_ms"`
	DiskFree     int64         `json:"disk_free_bytes"`
	Unfit        unfitKind     `json:"unfit,omitempty"`       // why it should not lead
	Checkpoints  []checkpoint  `json:"checkpoints,omitempty"` // the latest

	Peers []Peer `json:"peers,omitempty"` // what it was started with
	// Servers is raft's committed configuration, or the latest while the node does
	// not know what is committed. A node that joined by one that is undone again
	// would count as removed.
	Servers []server `json:"servers,omitempty"`
	// Caller is what the leader says of who asked.
	Caller standing `json:"caller,omitempty"`
}

// server is one line of raft's configuration.
type server struct {
	ID    raft.ServerID `json:"id"`
	Addr  string        `json:"addr"`
	Voter bool          `json:"voter"`
}

// leader is the leader that a report names, as a member is known to others.
func (r *nodeReport) leader() (Peer, bool) {
	for _, s := range r.Servers {
		if s.ID == r.Leader {
			return Peer{ID: nameOf(s.ID), Addr: s.Addr}, validAddr(s.Addr, false) == nil
		}
	}
	return Peer{}, false
}

// standing is where a node stands with the leader that says so.
type standing string

const (
	standsUnknown standing = ""
	standsMember  standing = "member"
	standsRemoved standing = "removed" // of this cluster, and surely no longer a member
)

func (n *Node) report(from party) *nodeReport {
	_, leader := n.raft.LeaderWithID()
	r := &nodeReport{
		party: n.self(), HTTPAddr: n.config.HTTPAdvertise, Removed: n.identity.Load().Removed,
		Role: roles[n.raft.State()], Term: n.raft.CurrentTerm(), Leader: leader,
		LastIndex: n.raft.LastIndex(), CommitIndex: n.raft.CommitIndex(), AppliedIndex: n.fsm.Applied(),
		FeatureLevel: ops.FeatureLevel, ClockMs: n.clock(), DiskFree: diskFree(n.config.DataDir),
		Peers: n.config.Peers, Caller: n.standing(from),
	}
	if reason := n.hostUnfit(time.Now()); reason != nil {
		r.Unfit = reason.kind
	}
	if err := n.Err(); err != nil {
		r.Problem = err.Error()
	}
	r.Checkpoints = n.checkpoints.all()
	known, index := n.fsm.Members()
	if index == 0 {
		known.Servers = n.servers()
	}
	for _, s := range known.Servers {
		r.Servers = append(r.Servers, server{s.ID, string(s.Address), s.Suffrage == raft.Voter})
	}
	return r
}

// standing is sure of what it says only on a leader past its barrier, and of a
// configuration that is committed.
func (n *Node) standing(from party) standing {
	committed, index := n.fsm.Members()
	switch _, member := findServer(n.servers(), from.serverID()); {
	case member:
		return standsMember
	case from.Cluster != n.identity.Load().Cluster || n.leading() == nil || index == 0:
		return standsUnknown
	}
	if _, member := findServer(committed.Servers, from.serverID()); member {
		return standsUnknown
	}
	return standsRemoved
}

// diskFree is what users may still write to dir's file system, -1 when unknown.
func diskFree(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
