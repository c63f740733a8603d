package raftnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// introduction is what nodes tell each other, as one JSON frame each way, to form
// a cluster: who they are, with whom they were told to form one, and the members
// when they have done so.
type introduction struct {
	NodeID   string     `json:"node_id"`
	Instance instanceID `json:"instance"`
	Peers    []Peer     `json:"peers"`
	Members  []member   `json:"members"`
}

const (
	introductionLimit = 64 << 10
	formRetry         = 200 * time.Millisecond
	formTimeout       = time.Second
)

func (n *Node) introduction() introduction {
	self := n.identity.Load()
	return introduction{NodeID: self.NodeID, Instance: self.Instance, Peers: n.config.Peers, Members: self.Members}
}

// serveForm answers one introduction with this node's.
func (n *Node) serveForm(conn net.Conn) {
	if err := conn.SetDeadline(time.Now().Add(formTimeout)); err != nil {
		return
	}
	if _, err := readFrame(conn, introductionLimit); err != nil {
		return
	}
	if answer, err := json.Marshal(n.introduction()); err == nil {
		_ = writeFrame(conn, answer) // it asks again
	}
}

// meet exchanges introductions with one peer.
func (n *Node) meet(ctx context.Context, p Peer) (introduction, error) {
	var other introduction
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	conn, err := n.network.dial(ctx, p.Addr, kindForm)
	if err != nil {
		return other, err
	}
	defer conn.Close()
	mine, err := json.Marshal(n.introduction())
	if err != nil {
		return other, err
	}
	if err := errors.Join(conn.SetDeadline(time.Now().Add(formTimeout)), writeFrame(conn, mine)); err != nil {
		return other, err
	}
	answer, err := readFrame(conn, introductionLimit)
	if err != nil {
		return other, err
	}
	if err := json.Unmarshal(answer, &other); err != nil {
		return other, fmt.Errorf("introduction: %w", err)
	}
	if other.NodeID != p.ID {
		return other, fmt.Errorf("%s is node %s, not %s", p.Addr, other.NodeID, p.ID)
	}
	return other, nil
}

// form waits until the cluster is formed and makes this node part of it.
//
// A node decides on the members when, in one round, all peers have answered with
// empty directories and with the same list; or it learns them from a peer that
// has. All come to the same members, since an instance never changes; whoever
// crashed in between learns from the others, who refuse one whose instance is not
// the one they know.
func (n *Node) form(ctx context.Context) error {
	for !n.identity.Load().formed() {
		members, waiting := n.formRound(ctx)
		if waiting == nil {
			id := *n.identity.Load()
			id.form(members)
			return n.become(id)
		}
		reason := strings.Join(waiting, "; ")
		n.waiting.Store(&reason)
		n.quiet.say(reason, func() { n.logger.Info("waiting to form the cluster", "for", reason) })
		select {
		case <-time.After(formRetry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// formRound asks every peer once. It returns the members, or for whom and why this
// node still waits.
func (n *Node) formRound(ctx context.Context) (members []member, waiting []string) {
	type reply struct {
		peer Peer
		introduction
		err error
	}
	others := slices.DeleteFunc(slices.Clone(n.config.Peers), func(p Peer) bool { return p.ID == n.config.NodeID })
	replies := make(chan reply, len(others))
	for _, p := range others {
		go func() {
			other, err := n.meet(ctx, p)
			replies <- reply{p, other, err}
		}()
	}
	self := n.identity.Load()
	members = []member{{n.self(), self.Instance}}
	var formed []member
	for range others {
		r := <-replies
		switch {
		case r.err != nil:
			waiting = append(waiting, fmt.Sprintf("%s: %v", r.peer.ID, r.err))
		case len(r.Members) > 0:
			if problem := n.notAmong(r.Members); problem != "" {
				waiting = append(waiting, fmt.Sprintf("%s: %s", r.peer.ID, problem))
			} else {
				formed = r.Members
			}
		case !samePeers(r.Peers, n.config.Peers):
			waiting = append(waiting, fmt.Sprintf("%s: was started with the peers %s, this node with %s", r.peer.ID, peerList(r.Peers), peerList(n.config.Peers)))
		default:
			members = append(members, member{r.peer, r.Instance})
		}
	}
	if formed != nil {
		return formed, nil
	}
	slices.Sort(waiting)
	return members, waiting
}

// notAmong says why this node is not one of the members of a cluster that others
// formed; empty when it is.
func (n *Node) notAmong(members []member) string {
	known := identity{Members: members}
	m, ok := known.member(n.config.NodeID)
	switch {
	case !ok:
		return fmt.Sprintf("has formed a cluster of %s, without this node", peerList(known.peers()))
	case m.Instance != n.identity.Load().Instance:
		return fmt.Sprintf("knows %s by another data directory; a node that lost its data may not come back as itself: restore that directory", n.config.NodeID)
	}
	return ""
}

// become makes the node a member: first the identity says so, then the log begins
// with the members' configuration, the same on all of them, and then, once the
// identity says that the log exists, others may talk to it.
func (n *Node) become(id identity) error {
	if err := id.save(n.config.DataDir); err != nil {
		return err
	}
	if err := n.beginLog(&id); err != nil {
		return err
	}
	id.Joined = true
	if err := id.save(n.config.DataDir); err != nil {
		return err
	}
	n.identity.Store(&id)
	n.logger.Info("part of the cluster", "cluster", id.Cluster.String(), "members", peerList(id.peers()))
	return nil
}

func (n *Node) beginLog(id *identity) error {
	var servers []raft.Server
	for _, m := range id.Members {
		servers = append(servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Addr)})
	}
	err := n.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
	if errors.Is(err, raft.ErrCantBootstrap) { // begun before a crash
		return nil
	}
	return err
}

func samePeers(a, b []Peer) bool { return peerList(a) == peerList(b) }

// peerList is the peers as the command line takes them, by id.
func peerList(peers []Peer) string {
	list := make([]string, len(peers))
	for i, p := range peers {
		list[i] = p.ID + "=" + p.Addr
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
