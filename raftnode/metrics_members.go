package raftnode

import (
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// memberCollector shows the members as the leader knows them; other nodes show only
// how many there are. A member's name is the only label, so there are as many series
// as members.
type memberCollector struct{ node *Node }

var (
	descMembers   = stateDesc("cpnode_members", "Members of the cluster as this node knows it, by role: voter or learner.", "role")
	descTolerated = stateDesc("cpnode_failures_tolerated", "On the leader: how many more voters may fail now without the cluster losing its majority.")
	descPeerUp    = stateDesc("cpnode_peer_up", "On the leader: 1 when the other member answered lately, else 0.", "peer")
	descContact   = stateDesc("cpnode_peer_last_contact_seconds", "On the leader: time since the other member answered; -1 when it has not yet.", "peer")
	descLag       = stateDesc("cpnode_peer_lag_entries", "On the leader: log entries that the other member's state lacked of what was committed when it last was asked; -1 when unknown.", "peer")
	descMargin    = stateDesc("cpnode_peer_log_margin_entries", "On the leader: log entries that this node may still drop before the other member needs a snapshot; below 0 it needs one now.", "peer")
)

// Describe implements prometheus.Collector.
func (memberCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMembers, descTolerated, descPeerUp, descContact, descLag, descMargin} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c memberCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	n := c.node
	servers := n.servers()
	voting := len(voters(servers))
	gauge(descMembers, float64(voting), "voter")
	gauge(descMembers, float64(len(servers)-voting), "learner")
	if n.leading() == nil {
		return
	}
	gauge(descTolerated, float64(n.tolerated(servers)))
	first, err := n.log.FirstIndex()
	if err != nil {
		return // the node is closing
	}
	commit := n.lastSeen(n.raft.CommitIndex())
	for name, id := range n.peersByName(servers) {
		p := n.polls.of(id)
		gauge(descPeerUp, one(n.reachable(id)), name)
		gauge(descContact, p.silence(), name)
		gauge(descLag, p.lag(commit), name)
		if p.report != nil {
			gauge(descMargin, float64(p.report.LastIndex+1)-float64(first), name)
		}
	}
}

// peersByName are the other members. While one replaces another of its name, that is
// the one which answered last.
func (n *Node) peersByName(servers []raft.Server) map[string]raft.ServerID {
	byName := map[string]raft.ServerID{}
	for _, s := range servers {
		if s.ID == n.id() {
			continue
		}
		name := nameOf(s.ID)
		if other, twice := byName[name]; !twice || n.polls.of(s.ID).at.After(n.polls.of(other).at) {
			byName[name] = s.ID
		}
	}
	return byName
}

// silence is in seconds, -1 when there was no answer yet.
func (p *poll) silence() float64 {
	if p.report == nil {
		return -1
	}
	return time.Since(p.at).Seconds()
}

// lag is what the member's state lacked when it was asked: of one that answers, the
// entries that were committed since are not behind. Of one that does not, they are.
func (p *poll) lag(commit uint64) float64 {
	if p.report == nil {
		return -1
	}
	if p.problem == "" {
		commit = p.commit
	}
	return float64(commit - min(commit, p.report.AppliedIndex))
}
