package raftnode

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// MemberStatus is one node of the cluster as the leader knows it. Of one that has
// not answered since it leads, only ID, Instance, Addr and Role are known.
type MemberStatus struct {
	ID       string
	Instance string // 32 hexadecimal digits: its data directory
	Addr     string // of its raft port, empty until it is written down
	HTTPAddr string // where clients reach it, empty when it does not say
	Role     string // "voter" or "learner"
	Leader   bool
	// Reachable says whether it answered lately; LastContact is the time since it
	// did, Unknown when it never has.
	Reachable   bool
	LastContact time.Duration
	// LastIndex, CommitIndex and AppliedIndex are as it last answered.
	LastIndex, CommitIndex, AppliedIndex uint64
	ClockOffset                          time.Duration // its clock less the leader's
	FeatureLevel                         uint64        // that it supports
	DiskFreeBytes                        int64         // -1 when unknown
	Problem                              string        // why it does not answer, has stopped or is not fit to lead
}

// ClusterStatus is the cluster as its leader knows it.
type ClusterStatus struct {
	ClusterID, LeaderID string
	Term                uint64
	ConfigurationIndex  uint64 // of the log entry that holds the members
	FeatureLevel        uint64 // of the state
	// FailuresTolerated is how many more voters may fail now without the cluster
	// losing its majority.
	FailuresTolerated int
	Members           []MemberStatus
}

// Cluster is what the leader knows of the members. Error: ErrNotLeader.
func (n *Node) Cluster(context.Context) (ClusterStatus, error) {
	leads := n.leading()
	if leads == nil {
		return ClusterStatus{}, ErrNotLeader
	}
	_, index := n.fsm.Members()
	servers := n.servers()
	s := ClusterStatus{
		ClusterID: n.identity.Load().Cluster.String(), LeaderID: n.config.NodeID, Term: leads.term,
		ConfigurationIndex: index, FeatureLevel: n.fsm.FeatureLevel(), FailuresTolerated: n.tolerated(servers),
	}
	for _, server := range servers {
		s.Members = append(s.Members, n.memberStatus(server))
	}
	return s, nil
}

// tolerated is how many of the voters that answer a majority can do without.
func (n *Node) tolerated(servers []raft.Server) int {
	all, answer := voters(servers), 0
	for _, s := range all {
		if n.reachable(s.ID) {
			answer++
		}
	}
	return max(0, answer-(len(all)/2+1))
}

func (n *Node) memberStatus(s raft.Server) MemberStatus {
	m := MemberStatus{ID: nameOf(s.ID), Instance: instanceOf(s.ID), Addr: addrOf(s), Role: "learner", Reachable: n.reachable(s.ID), LastContact: Unknown, DiskFreeBytes: -1}
	if s.Suffrage == raft.Voter {
		m.Role = "voter"
	}
	if s.ID == n.id() {
		m.Leader, m.LastContact = true, 0
		m.fill(n.report(n.self()))
		return m
	}
	p := n.polls.of(s.ID)
	if p.report != nil {
		m.LastContact, m.ClockOffset = time.Since(p.at), p.offset
		m.fill(p.report)
	}
	if p.problem != "" {
		m.Problem = p.problem
	}
	return m
}

func (m *MemberStatus) fill(r *nodeReport) {
	m.HTTPAddr, m.Problem, m.FeatureLevel, m.DiskFreeBytes = r.HTTPAddr, r.Problem, r.FeatureLevel, r.DiskFree
	m.LastIndex, m.CommitIndex, m.AppliedIndex = r.LastIndex, r.CommitIndex, r.AppliedIndex
	if m.Problem == "" && r.Unfit != "" {
		m.Problem = "not fit to lead: " + string(r.Unfit)
	}
}
