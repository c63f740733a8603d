package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// addressBook knows where nodes said that they are reached. Its zero value is empty.
type addressBook struct {
	mu   sync.Mutex
	said map[raft.ServerID]string
}

// addressLines bounds the book: directories come and go, members are few.
const addressLines = 1024

// heard notes what a node said of itself.
func (b *addressBook) heard(id raft.ServerID, addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.said[id]; b.said == nil || !known && len(b.said) >= addressLines {
		b.said = map[raft.ServerID]string{}
	}
	b.said[id] = addr
}

func (b *addressBook) of(id raft.ServerID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[id]
}

// addresses is where the node may be reached, the likeliest first: what it said
// last, the configuration, what this node was started with.
func (n *Node) addresses(id raft.ServerID) []string {
	all := []string{n.network.book.of(id)}
	if s, ok := findServer(n.servers(), id); ok {
		all = append(all, addrOf(s))
	}
	for _, p := range n.config.Peers {
		if p.ID == nameOf(id) {
			all = append(all, p.Addr)
		}
	}
	var usable []string
	for _, addr := range all {
		if !slices.Contains(usable, addr) && validAddr(addr, false) == nil {
			usable = append(usable, addr)
		}
	}
	return usable
}

// servers is raft's latest configuration.
func (n *Node) servers() []raft.Server { return n.raft.GetConfiguration().Configuration().Servers }

// dialStagger is how long one address is tried alone: a host that is gone answers
// nothing at all.
const dialStagger = 250 * time.Millisecond

// dialed is a connection to a node, and the address it was reached at.
type dialed struct {
	net.Conn
	addr string
}

// dialMember connects to the node, wherever it is, and to no other.
func (n *Node) dialMember(ctx context.Context, id raft.ServerID, kind connKind) (dialed, error) {
	addrs := n.addresses(id)
	if len(addrs) == 0 {
		return dialed{}, fmt.Errorf("no address of node %s is known", nameOf(id))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		dialed
		err error
	}
	results := make(chan result)
	for i, addr := range addrs {
		go func() {
			r := result{dialed{addr: addr}, wait(ctx, time.Duration(i)*dialStagger)}
			if r.err == nil {
				r.Conn, _, r.err = n.network.dial(ctx, addr, kind, id)
			}
			select {
			case results <- r:
			case <-ctx.Done():
				if r.err == nil {
					r.Close()
				}
			}
		}()
	}
	var errs []error
	for range addrs {
		select {
		case r := <-results:
			if r.err == nil {
				return r.dialed, nil
			}
			errs = append(errs, r.err)
		case <-ctx.Done():
			return dialed{}, errors.Join(append(errs, ctx.Err())...)
		}
	}
	return dialed{}, errors.Join(errs...)
}

// wait returns nil after d, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dialKind makes connections of one kind.
func (n *Node) dialKind(kind connKind) dialFunc {
	return func(ctx context.Context, id raft.ServerID) (net.Conn, error) {
		d, err := n.dialMember(ctx, id, kind)
		return d.Conn, err
	}
}

// dialer makes connections of one kind to one node.
func (n *Node) dialer(id raft.ServerID, kind connKind) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return n.dialKind(kind)(ctx, id) }
}
