package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const formRetry = 200 * time.Millisecond

// form waits until this node is part of a cluster.
//
// It decides on the members when, in one round, all peers have answered with empty
// directories and with the same list. All who decide come to the same members,
// since an instance never changes. Once one has, the others adopt what its raft
// configuration says: see adopt and askBack.
func (n *Node) form(ctx context.Context) error {
	for {
		replies := n.askPeers(ctx)
		done, waiting, err := n.formRound(ctx, replies)
		if done || err != nil {
			return err
		}
		slices.Sort(waiting)
		reason := strings.Join(waiting, "; ")
		n.waiting.Store(&reason)
		n.quiet.say(reason, func() { n.logger.Info("waiting to be part of a cluster", "for", reason) })
		if err := wait(ctx, formRetry); err != nil {
			return err
		}
	}
}

// reply is what one of the peers said, or why it did not.
type reply struct {
	peer Peer
	*nodeReport
	err error
}

// silence says why a peer gave no answer, and what is to be done when nothing listens.
func (r *reply) silence() string {
	var dial *net.OpError
	if errors.As(r.err, &dial) && dial.Op == "dial" {
		return fmt.Sprintf("%s: is not reached at %s (%v): start it there, or correct the peers", r.peer.ID, r.peer.Addr, dial.Err)
	}
	return fmt.Sprintf("%s: %v", r.peer.ID, r.err)
}

// askPeers asks every other peer for its report.
func (n *Node) askPeers(ctx context.Context) []reply {
	others := slices.DeleteFunc(slices.Clone(n.config.Peers), func(p Peer) bool { return p.ID == n.config.NodeID })
	replies := make(chan reply, len(others))
	for _, p := range others {
		go func() {
			said, err := n.askAddr(ctx, p, controlRequest{Verb: verbReport})
			if err == nil && said.Report == nil {
				err = errNoReport
			}
			replies <- reply{p, said.Report, err}
		}()
	}
	all := make([]reply, len(others))
	for i := range all {
		all[i] = <-replies
	}
	return all
}

// formRound says whether this node is part of a cluster now, or why it waits.
func (n *Node) formRound(ctx context.Context, replies []reply) (done bool, waiting []string, err error) {
	clusters := map[clusterID][]string{}
	members := []member{{Peer{n.config.NodeID, n.advertised}, n.identity.Load().Instance}}
	for _, r := range replies {
		switch {
		case r.err != nil:
			waiting = append(waiting, r.silence())
		case r.Cluster != clusterID{}:
			clusters[r.Cluster] = append(clusters[r.Cluster], r.peer.ID)
		case !samePeers(r.Peers, n.config.Peers):
			waiting = append(waiting, fmt.Sprintf("%s: was started with the peers %s, this node with %s", r.peer.ID, peerList(r.Peers), peerList(n.config.Peers)))
		default:
			members = append(members, member{r.peer, r.Instance})
		}
	}
	switch {
	case len(clusters) > 1:
		return false, foreign(clusters), nil
	case len(clusters) == 1:
		return n.adopt(ctx, replies, waiting)
	case len(waiting) > 0:
		return false, waiting, nil
	}
	id := *n.identity.Load()
	id.form(members)
	return true, nil, n.become(id)
}

func foreign(clusters map[clusterID][]string) (waiting []string) {
	for cluster, names := range clusters {
		slices.Sort(names)
		waiting = append(waiting, fmt.Sprintf("%s: of cluster %s; the peers are not of one cluster", strings.Join(names, ", "), cluster))
	}
	return waiting
}

// become makes the node a member of a cluster that it forms: first the identity
// says so, then the log begins with the members' configuration, the same on all of
// them, and then, once the identity says that the log exists, others may talk to
// it.
func (n *Node) become(id identity) error {
	n.noting.Lock()
	err := id.save(n.config.DataDir)
	n.noting.Unlock()
	if err != nil {
		return err
	}
	if err := n.beginLog(&id); err != nil {
		return err
	}
	return n.joined(id)
}

func (n *Node) beginLog(id *identity) error {
	var servers []raft.Server
	for _, m := range id.Members {
		servers = append(servers, raft.Server{Suffrage: raft.Voter, ID: serverID(m.ID, m.Instance), Address: raft.ServerAddress(m.Addr)})
	}
	err := n.raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
	if errors.Is(err, raft.ErrCantBootstrap) { // begun before a crash
		return nil
	}
	return err
}

// joined says that the log exists.
func (n *Node) joined(id identity) error {
	err := n.note(func(now *identity) {
		id.Corrupt, id.Joined = now.Corrupt, true
		*now = id
	})
	if err != nil {
		return err
	}
	n.waiting.Store(nil)
	n.logger.Info("part of the cluster", "cluster", id.Cluster.String())
	return nil
}

// warnOfPeers says when this node was started with other peers than the members.
func (n *Node) warnOfPeers() {
	if members := peersOf(n.servers()); len(n.config.Peers) > 0 && len(members) > 0 && !samePeers(n.config.Peers, members) {
		n.logger.Warn("the configured peers are not the members of the cluster; they only say where to look for them",
			"configured", peerList(n.config.Peers), "members", peerList(members))
	}
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
