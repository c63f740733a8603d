package raftnode

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

// Status is what a node knows of itself and its cluster.
type Status struct {
	NodeID     string
	ClusterID  string // 32 hexadecimal digits; empty until the cluster is formed
	Role       string // "leader", "follower", "candidate" or "shutdown"
	Term       uint64
	LeaderID   string // empty when none is known
	LeaderAddr string
	// LastIndex is the end of this node's log, CommitIndex what it knows to be
	// committed, AppliedIndex what its state holds. The last one stays behind by
	// entries of raft's own that the state never sees.
	LastIndex, CommitIndex, AppliedIndex uint64
	Peers                                []Peer // by the latest configuration
	Fatal                                error  // why the node has stopped
}

var roles = map[raft.RaftState]string{
	raft.Leader: "leader", raft.Follower: "follower", raft.Candidate: "candidate", raft.Shutdown: "shutdown",
}

// Status does not wait for anything.
func (n *Node) Status() Status {
	addr, id := n.raft.LeaderWithID()
	s := Status{
		NodeID: n.config.NodeID, Role: roles[n.raft.State()], Term: n.raft.CurrentTerm(),
		LeaderID: nameOf(id), LeaderAddr: string(addr),
		LastIndex: n.raft.LastIndex(), CommitIndex: n.raft.CommitIndex(), AppliedIndex: n.fsm.Applied(),
		Fatal: n.Err(),
	}
	if self := n.identity.Load(); self.formed() {
		s.ClusterID = self.Cluster.String()
	}
	s.Peers = peersOf(n.servers())
	return s
}

// LeaderID is the node that this one takes for the leader, empty when it knows
// none. It is cheap.
func (n *Node) LeaderID() string {
	_, id := n.raft.LeaderWithID()
	return nameOf(id)
}

// Settings are those of the configuration.
func (n *Node) Settings() ops.Settings { return n.config.Settings }

// FeatureLevel is the level of this node's state, which says what may be logged.
func (n *Node) FeatureLevel() uint64 { return n.fsm.FeatureLevel() }

// RaftAddr is the address that the node listens on.
func (n *Node) RaftAddr() string { return n.network.listener.Addr().String() }

// RaftAdvertised is where the node says that others reach it.
func (n *Node) RaftAdvertised() string { return n.advertised }

// readyLag is how many committed entries a follower's state may lack for it to be
// ready: a node that comes back is not counted on before it has caught up.
const readyLag = 1000

// Ready is nil when the node can serve: it has a leader, and a state that is near
// what is committed. Otherwise it says why not.
func (n *Node) Ready() error {
	if err := n.serving(); err != nil {
		return err
	}
	switch self := n.identity.Load(); {
	case self.Removed:
		return errRemoved
	case !self.Joined && n.waiting.Load() != nil:
		return fmt.Errorf("not part of a cluster yet: %s", *n.waiting.Load())
	case !self.Joined:
		return fmt.Errorf("not part of a cluster yet: waits for the answers of its peers, %s", peerList(n.config.Peers))
	}
	if err := n.stateHere(); err != nil {
		return err
	}
	leader := n.LeaderID()
	switch {
	case n.diskHangs(time.Now()):
		return errors.New("a write to this node's raft log hangs: look at its disk")
	case n.transport.layer.isMute():
		return errors.New("nothing was committed for too long: this node waits for another leader")
	case n.space.waits():
		return errors.New("entries wait for space on this node's disk")
	case leader == "":
		return n.leaderless()
	case leader == n.config.NodeID && n.leading() == nil:
		return errors.New("this node is taking over as the leader")
	case n.raft.CommitIndex() == 0:
		return errors.New("the leader has not reported yet")
	}
	if commit, applied := max(n.raft.CommitIndex(), n.fresh.committed()), n.fsm.Applied(); n.lastSeen(commit) > applied+readyLag {
		return fmt.Errorf("the state is at %d of %d committed entries", applied, commit)
	}
	return nil
}

// leaderless says why this node may know no leader.
func (n *Node) leaderless() error {
	if refusal := n.waiting.Load(); refusal != nil && *refusal != "" {
		return fmt.Errorf("no leader is known: %s", *refusal)
	}
	var names []string
	for _, s := range voters(n.servers()) {
		names = append(names, nameOf(s.ID))
	}
	return fmt.Errorf("no leader is known: a majority of the voters, %s, must be up and reach each other", strings.Join(names, ", "))
}
