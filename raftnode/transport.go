package raftnode

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	transportTimeout = 5 * time.Second
	transportPool    = 3 // idle connections to each node
)

// transport is raft's, over connections of kindRaft, which go to server ids, not to
// addresses. On the way in it lets fresh see what leaders report.
type transport struct {
	*raft.NetworkTransport
	layer    *streamLayer
	consumer chan raft.RPC
	done     sync.WaitGroup
	// moves says whether a heartbeat of a term would change what this node votes by; beside
	// is raft's handler of those that do not.
	moves  func(term uint64) bool
	beside func(raft.RPC)
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// newTransport is reached at advertise and connects with dial; observe sees every
// message before raft does, but for heartbeats. Connections of others come by layer.offer.
func newTransport(advertise string, dial dialFunc, logger hclog.Logger, observe func(*raft.RPC), moves func(term uint64) bool) *transport {
	layer := &streamLayer{dial: dial, addr: streamAddr(advertise), accepted: make(chan net.Conn), closed: make(chan struct{})}
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: layer, MaxPool: transportPool, Timeout: transportTimeout, Logger: logger,
			ServerAddressProvider: byIdentity{},
		}),
		layer: layer, consumer: make(chan raft.RPC), moves: moves,
	}
	t.done.Add(1)
	go t.pump(observe)
	return t
}

func (t *transport) pump(observe func(*raft.RPC)) {
	defer t.done.Done()
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			observe(&rpc)
			select {
			case t.consumer <- rpc:
			case <-t.layer.closed:
				return
			}
		case <-t.layer.closed:
			return
		}
	}
}

// SetHeartbeatHandler lets raft handle heartbeats beside its main loop, but for those
// that move a follower or a candidate on: beside a vote in a later term the older one
// could be set last, and what its leader sends be taken after that vote.
func (t *transport) SetHeartbeatHandler(beside func(raft.RPC)) {
	t.beside = beside
	t.NetworkTransport.SetHeartbeatHandler(t.heartbeat)
}

func (t *transport) heartbeat(rpc raft.RPC) {
	if m, ok := rpc.Command.(*raft.AppendEntriesRequest); !ok || !t.moves(m.Term) {
		t.beside(rpc)
		return
	}
	select {
	case t.consumer <- rpc:
	case <-t.layer.closed:
	}
}

// Consumer is where raft takes its messages from.
func (t *transport) Consumer() <-chan raft.RPC { return t.consumer }

// stand makes raft stand for election at once, as if a leader had handed over.
func (t *transport) stand() {
	rpc := raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}},
		RespChan: make(chan raft.RPCResponse, 1),
	}
	select {
	case t.consumer <- rpc:
	case <-t.layer.closed:
	}
}

// EncodePeer is what raft keeps of whom it voted for. An address alone would let
// two nodes that swap theirs share one vote.
func (t *transport) EncodePeer(id raft.ServerID, addr raft.ServerAddress) []byte {
	return []byte(string(id) + "@" + string(addr))
}

// DecodePeer is the address in what EncodePeer wrote.
func (t *transport) DecodePeer(b []byte) raft.ServerAddress {
	return raft.ServerAddress(b[bytes.LastIndexByte(b, '@')+1:])
}

// byIdentity makes the transport dial, and pool connections by, server ids.
type byIdentity struct{}

// ServerAddr implements raft.ServerAddressProvider.
func (byIdentity) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	return raft.ServerAddress(id), nil
}

// dialFunc connects to one node, whatever its address.
type dialFunc func(ctx context.Context, id raft.ServerID) (net.Conn, error)

// Close ends the transport and its connections to others. It is idempotent.
func (t *transport) Close() error {
	err := t.NetworkTransport.Close() // closes layer
	t.CloseStreams()
	t.done.Wait()
	return err
}

// streamLayer is the network as raft's transport wants it.
type streamLayer struct {
	muter
	dial     dialFunc
	addr     streamAddr
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

// streamAddr is the address that others reach this node at.
type streamAddr string

// Network implements net.Addr.
func (streamAddr) Network() string { return "tcp" }

func (a streamAddr) String() string { return string(a) }

// offer hands a connection to the transport and waits until it has closed it.
func (l *streamLayer) offer(conn net.Conn, _ party) {
	served := &servedConn{Conn: conn, closed: make(chan struct{})}
	select {
	case l.accepted <- served:
		<-served.closed
	case <-l.closed:
	}
}

// Accept implements net.Listener.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Dial implements raft.StreamLayer; addr is byIdentity's.
func (l *streamLayer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := l.dial(ctx, raft.ServerID(addr))
	if err != nil {
		return nil, err
	}
	return l.keep(conn)
}

// Addr implements net.Listener.
func (l *streamLayer) Addr() net.Addr { return l.addr }

// Close implements net.Listener.
func (l *streamLayer) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// servedConn tells when it is closed.
type servedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Close closes the connection.
func (c *servedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}
