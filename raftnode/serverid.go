package raftnode

import (
	"strings"

	"github.com/hashicorp/raft"
)

// A raft server id is "name/instance": raft's configuration says which directory
// votes, not which name. See DESIGN.md, Members.
func serverID(nodeID string, instance instanceID) raft.ServerID {
	return raft.ServerID(nodeID + "/" + instance.String())
}

// nameOf is the name in a server id; people see nothing else of it.
func nameOf(id raft.ServerID) string {
	name, _, _ := strings.Cut(string(id), "/")
	return name
}

// instanceOf is the instance in a server id.
func instanceOf(id raft.ServerID) string {
	_, instance, _ := strings.Cut(string(id), "/")
	return instance
}

func voters(servers []raft.Server) (all []raft.Server) {
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			all = append(all, s)
		}
	}
	return all
}

func findServer(servers []raft.Server, id raft.ServerID) (raft.Server, bool) {
	for _, s := range servers {
		if s.ID == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

// addrOf is where the configuration says that a server is reached, empty where it
// holds a placeholder, see newLearner.
func addrOf(s raft.Server) string {
	if string(s.Address) == string(s.ID) {
		return ""
	}
	return string(s.Address)
}

// peersOf is the members as the command line takes them.
func peersOf(servers []raft.Server) []Peer {
	peers := make([]Peer, len(servers))
	for i, s := range servers {
		peers[i] = Peer{ID: nameOf(s.ID), Addr: addrOf(s)}
	}
	return peers
}
