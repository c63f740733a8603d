package raftnode

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

// readmit takes a node back whose directory was lost: the new one becomes a
// learner, and the leader's rules do the rest. Both are members for a moment, so
// that a leader that fails in between leaves nobody behind.
func (n *Node) readmit(ctx context.Context, from party) error {
	if n.leading() == nil {
		return ErrNotLeader
	}
	return n.changeAlone(ctx, func(ctx context.Context) error { return n.readmitAlone(ctx, from) })
}

func (n *Node) readmitAlone(ctx context.Context, from party) error {
	if (from.Cluster != clusterID{}) {
		return invalid("a node of cluster %s is not taken in", from.Cluster)
	}
	servers := n.servers()
	var others []raft.Server
	for _, s := range servers {
		switch {
		case s.ID == from.serverID():
			return nil
		case nameOf(s.ID) == from.NodeID:
			others = append(others, s)
		}
	}
	if len(others) == 0 {
		return invalid("%s is not a member: run cpnode cluster join %s=%s", from.NodeID, from.NodeID, from.Addr)
	}
	for _, s := range others {
		if addr, err := n.answersAt(ctx, s.ID); err == nil {
			return invalid("node %s runs elsewhere, at %s, with another data directory; stop that one first, or give this node a name of its own", from.NodeID, addr)
		}
	}
	if !n.outvotes(servers, others[0].ID) {
		return invalid("without %s, the voters that answer are no majority; start the others first", from.NodeID)
	}
	if len(others) > 1 { // the one that was to replace the first is gone as well
		return n.carryOut(ctx, removeServer(others[1].ID, ""))
	}
	return n.carryOut(ctx, n.newLearner(from))
}

// answersAt is where a member answers, at this moment.
func (n *Node) answersAt(ctx context.Context, id raft.ServerID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	conn, err := n.dialMember(ctx, id, kindControl)
	if err != nil {
		return "", err
	}
	return conn.addr, conn.Close()
}

// newLearner adds a node. raft wants addresses to differ: while another directory
// holds this one's, the server id stands in its place, see moved.
func (n *Node) newLearner(p party) change {
	addr := p.Addr
	if usesAddress(n.servers(), addr) {
		addr = string(p.serverID())
	}
	return addLearner(p.serverID(), raft.ServerAddress(addr), "joins")
}

// Join adds a node to the cluster as a learner, which the leader makes a voter once
// it has caught up. The node must have been started with an empty directory and
// with peers of this cluster; p.Addr is where it is asked, what it says itself is
// where it will be reached. The result is the node's instance. To join a member is
// no error. Errors: ErrNotLeader; *ops.Error with INVALID_REQUEST that names what
// is wrong, or OUTCOME_UNKNOWN.
func (n *Node) Join(ctx context.Context, p Peer) (instance string, err error) {
	if n.leading() == nil {
		return "", ErrNotLeader
	}
	if !validNodeID(p.ID) {
		return "", invalid("id: %q is not a node id", p.ID)
	}
	if err := validAddr(p.Addr, false); err != nil {
		return "", invalid("addr: %v", err)
	}
	said, err := n.askAddr(ctx, p, controlRequest{Verb: verbReport})
	if dial := (&net.OpError{}); errors.As(err, &dial) && dial.Op == "dial" {
		return "", invalid("addr: %v; does the node run, and is that its raft address?", err)
	}
	if err != nil {
		return "", invalid("addr: %v", err)
	}
	if said.Report == nil {
		return "", invalid("addr: %v", errNoReport)
	}
	r := said.Report
	return r.Instance.String(), n.changeAlone(ctx, func(ctx context.Context) error { return n.joinAlone(ctx, r) })
}

func (n *Node) joinAlone(ctx context.Context, r *nodeReport) error {
	if _, member := findServer(n.servers(), r.serverID()); member {
		return nil
	}
	if err := n.mayJoin(r); err != nil {
		return err
	}
	for _, s := range n.servers() {
		if nameOf(s.ID) == r.NodeID { // its directory was lost
			return n.readmitAlone(ctx, r.party)
		}
	}
	return n.carryOut(ctx, n.newLearner(r.party))
}

// mayJoin says what is wrong with a node that is to be added.
func (n *Node) mayJoin(r *nodeReport) error {
	switch {
	case r.Removed:
		return invalid("id: node %s was removed from the cluster; empty its directory and start it again first", r.NodeID)
	case r.Cluster != clusterID{}:
		return invalid("id: node %s belongs to cluster %s already, this one is %s", r.NodeID, r.Cluster, n.identity.Load().Cluster)
	case r.FeatureLevel < n.fsm.FeatureLevel():
		return invalid("id: node %s runs a release that supports feature level %d, the cluster is at %d; upgrade it first", r.NodeID, r.FeatureLevel, n.fsm.FeatureLevel())
	}
	for _, p := range r.Peers {
		for _, s := range n.servers() {
			if p.ID == nameOf(s.ID) && p.ID != r.NodeID {
				return nil
			}
		}
	}
	return invalid("id: node %s was started with the peers %q, none of which is a member of this cluster", r.NodeID, peerList(r.Peers))
}

// Remove takes a node out of the cluster for good. A leader that is to be removed
// hands leadership over and has the next one do it. It is refused when the voters
// that are left and answer would be no majority, unless force says otherwise; then
// it may be undone, and the cluster be without a leader until they answer. Errors:
// ErrNotLeader; *ops.Error with INVALID_REQUEST or OUTCOME_UNKNOWN.
func (n *Node) Remove(ctx context.Context, id string, force bool) error {
	if n.leading() == nil {
		return ErrNotLeader
	}
	self := false
	err := n.changeAlone(ctx, func(ctx context.Context) error {
		targets, err := n.removable(id, force)
		for i := len(targets) - 1; i >= 0 && err == nil; i-- {
			if self = targets[i].ID == n.id(); !self {
				err = n.carryOut(ctx, removeServer(targets[i].ID, ""))
			}
		}
		return err
	})
	if err == nil && self {
		return n.removeSelf(ctx, force)
	}
	return err
}

// removable is the directories under a name, of which there are two while one
// replaces the other, in this order. At most one has a vote.
func (n *Node) removable(id string, force bool) ([]raft.Server, error) {
	servers := n.servers()
	targets := slices.DeleteFunc(slices.Clone(servers), func(s raft.Server) bool { return nameOf(s.ID) != id })
	if len(targets) == 0 {
		return nil, invalid("id: %q is not a member", id)
	}
	for _, voter := range voters(targets) {
		if len(voters(servers)) == 1 {
			return nil, invalid("id: %s is the only voter", id)
		}
		if !force && !n.outvotes(servers, voter.ID) {
			return nil, invalid("id: without %s, the voters that answer are no majority; start the others first, or force it", id)
		}
	}
	return targets, nil
}

// removeSelf hands over, and asks the next leader to remove this node.
func (n *Node) removeSelf(ctx context.Context, force bool) error {
	if err := n.Transfer(ctx, ""); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		_, leader := n.raft.LeaderWithID()
		if leader != "" && leader != n.id() {
			said, err := n.askMember(ctx, leader, controlRequest{Verb: verbRemove, ID: n.config.NodeID, Force: force})
			switch {
			case err == nil && said.Error == nil:
				return nil
			case err == nil && !errors.Is(said.Error, ErrNotLeader) && said.Error.Code != ops.NoLeader:
				return said.Error
			}
		}
		if err := wait(ctx, barrierRetry); err != nil {
			return unknown("leadership was handed over; the next leader did not remove %s: %v", n.config.NodeID, err)
		}
	}
}

const (
	transferAttempts = 3
	// successorLook is how often the one that is to lead is asked how it is.
	successorLook = 20 * time.Millisecond
)

// Transfer hands leadership to the node with the id, or to any voter that is up to
// date when id is empty. Errors: ErrNotLeader; *ops.Error with INVALID_REQUEST, or
// NO_LEADER when the cluster would not have another leader; this one goes on then.
func (n *Node) Transfer(ctx context.Context, id string) error {
	if n.leading() == nil {
		return ErrNotLeader
	}
	to, err := n.successor(id)
	if err == nil && id != "" {
		err = n.awaitSuccessor(ctx, to.ID)
	}
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := n.transferOnce(ctx, to)
		if err == nil || n.raft.State() != raft.Leader {
			return nil
		}
		if attempt == transferAttempts || ctx.Err() != nil {
			return ops.Errorf(ops.NoLeader, "leadership could not be handed over, %d attempts: %v", attempt, err)
		}
	}
}

// transferOnce waits for raft no longer than it may take: its own wait can last for
// ever.
func (n *Node) transferOnce(ctx context.Context, to raft.Server) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	return await(ctx, func() error {
		if to.ID == "" {
			return n.raft.LeadershipTransfer().Error()
		}
		return n.raft.LeadershipTransferToServer(to.ID, to.Address).Error()
	})
}

// successor is the voter called id, or of those that answer the one whose log ends last,
// among those that call themselves fit if there are any. It is the zero one, which leaves
// the choice to raft, while none has been asked yet.
func (n *Node) successor(id string) (raft.Server, error) {
	if id != "" {
		return n.named(id)
	}
	var best raft.Server
	var end uint64
	bestFit := false
	others, answered := 0, 0
	for _, s := range voters(n.servers()) {
		if s.ID == n.id() {
			continue
		}
		others++
		p := n.polls.of(s.ID)
		if p.report == nil {
			continue
		}
		answered++
		fit := p.report.Unfit == "" && p.report.Problem == ""
		if n.reachable(s.ID) && (fit && !bestFit || fit == bestFit && p.report.LastIndex >= end) {
			best, bestFit, end = s, fit, p.report.LastIndex
		}
	}
	if others == 0 || answered > 0 && best.ID == "" {
		return best, ops.Errorf(ops.NoLeader, "no other voter answers")
	}
	return best, nil
}

// awaitSuccessor waits until the voter has just said that it is caught up. raft refuses
// all writes while it waits for the one that is to lead, and after that was away for
// long goes on waiting for ten seconds, whatever becomes of the attempt.
func (n *Node) awaitSuccessor(ctx context.Context, id raft.ServerID) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	for {
		n.pollMembers(n.ctx)
		if err := wait(ctx, successorLook); err != nil {
			return ops.Errorf(ops.NoLeader, "node %s does not answer, or is not caught up", nameOf(id))
		}
		if p := n.polls.of(id); p.at.After(began) && p.caughtUp > 0 {
			return nil
		}
	}
}

// named is another voter by its name.
func (n *Node) named(id string) (raft.Server, error) {
	if id == n.config.NodeID {
		return raft.Server{}, invalid("id: %s leads already", id)
	}
	for _, s := range voters(n.servers()) {
		if nameOf(s.ID) == id {
			return s, nil
		}
	}
	return raft.Server{}, invalid("id: %q is not a voter", id)
}

// invalid is the error of a request that names a field.
func invalid(format string, args ...any) error {
	return ops.Errorf(ops.InvalidRequest, format, args...)
}
