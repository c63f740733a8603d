package raftnode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Every connection to the raft port begins with a hello and an answer to it:
//
//	hello   | kind 1 | version 1 | cluster 16 | instance 16 | length 1 | node id |
//	answer  | verdict 1 | cluster 16 | instance 16 | length 1 | node id |
//
// The kind says what the connection is for. Before its cluster is formed, a node
// sends zeros for it.
const networkVersion = 1

type connKind byte

// Kinds of connections. Numbers are append-only.
const (
	kindRaft    connKind = 1 // raft's own messages
	kindTerm    connKind = 2 // term questions
	kindForward connKind = 3 // requests for the leader
	kindForm    connKind = 4 // forming a cluster
)

type verdict byte

// Verdicts on a hello. Numbers are append-only.
const (
	accepted       verdict = 0
	refusedVersion verdict = 1
	refusedCluster verdict = 2
	refusedMember  verdict = 3
	refusedForming verdict = 4
	refusedKind    verdict = 5
)

var refusals = map[verdict]string{
	refusedVersion: "it speaks another version of the protocol",
	refusedCluster: "it belongs to another cluster",
	refusedMember:  "it knows this node by another data directory: a node that lost its data may not come back as itself",
	refusedForming: "its cluster is not formed yet",
	refusedKind:    "it does not know this kind of connection",
}

// errRefused is wrapped by the errors of connections that the other side, or this
// one on hearing its answer, refused.
var errRefused = errors.New("connection refused")

const (
	helloTimeout = 5 * time.Second
	helloFixed   = 1 + 1 + 16 + 16 + 1
	answerFixed  = 1 + 16 + 16 + 1
)

// caller is who is at the other end of a connection.
type caller struct {
	cluster  clusterID
	instance instanceID
	nodeID   string
}

// network is the raft port: it accepts, makes and checks connections.
type network struct {
	listener net.Listener
	logger   *slog.Logger
	self     func() *identity // the present one
	handlers map[connKind]func(net.Conn)
	refused  quieter

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{} // accepted ones
	done   sync.WaitGroup
}

func listen(addr string, self func() *identity, logger *slog.Logger) (*network, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("raft address: %w", err)
	}
	return &network{listener: l, logger: logger, self: self, handlers: map[connKind]func(net.Conn){}, conns: map[net.Conn]struct{}{}}, nil
}

// handle sets what serves connections of a kind; fn owns the connection, and
// returns when it is closed. All are set before start.
func (nw *network) handle(kind connKind, fn func(net.Conn)) { nw.handlers[kind] = fn }

func (nw *network) start() {
	nw.done.Add(1)
	go nw.accept()
}

func (nw *network) accept() {
	defer nw.done.Done()
	for {
		conn, err := nw.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most likely: it passes
			nw.logger.Warn("cannot accept a connection on the raft port", "error", err)
			time.Sleep(acceptRetry)
			continue
		}
		if nw.keep(conn) {
			go nw.serve(conn)
		}
	}
}

const acceptRetry = 50 * time.Millisecond

// keep counts conn among those that close ends; false when it has begun.
func (nw *network) keep(conn net.Conn) bool {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	if nw.closed {
		conn.Close()
		return false
	}
	nw.conns[conn] = struct{}{}
	nw.done.Add(1)
	return true
}

func (nw *network) serve(conn net.Conn) {
	defer nw.done.Done()
	defer func() {
		conn.Close()
		nw.mu.Lock()
		delete(nw.conns, conn)
		nw.mu.Unlock()
	}()
	handler, err := nw.welcome(conn)
	if err != nil {
		nw.refused.say(conn.RemoteAddr().(*net.TCPAddr).IP.String()+err.Error(), func() {
			nw.logger.Warn("refused a connection on the raft port", "from", conn.RemoteAddr().String(), "error", err)
		})
		return
	}
	handler(conn)
}

// welcome reads a hello and answers it.
func (nw *network) welcome(conn net.Conn) (func(net.Conn), error) {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	var fixed [helloFixed]byte
	if _, err := io.ReadFull(conn, fixed[:]); err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	from, err := readCaller(conn, fixed[2:])
	if err != nil {
		return nil, fmt.Errorf("hello: %w", err)
	}
	kind, v := connKind(fixed[0]), accepted
	handler := nw.handlers[kind]
	switch {
	case fixed[1] != networkVersion:
		v = refusedVersion
	case handler == nil:
		v = refusedKind
	case kind != kindForm:
		v = judge(nw.self(), from)
	}
	if _, err := conn.Write(nw.introduce([]byte{byte(v)})); err != nil {
		return nil, fmt.Errorf("answer to hello: %w", err)
	}
	if v != accepted {
		return nil, fmt.Errorf("%w: node %q of cluster %s: verdict %d", errRefused, from.nodeID, from.cluster, v)
	}
	return handler, conn.SetDeadline(time.Time{})
}

// judge says whether a node may take part: it is of the same cluster, and has the
// data directory that it had when the cluster was formed.
func judge(self *identity, other caller) verdict {
	if !self.formed() {
		return refusedForming
	}
	if other.cluster != self.Cluster {
		return refusedCluster
	}
	if m, ok := self.member(other.nodeID); !ok || m.Instance != other.instance {
		return refusedMember
	}
	return accepted
}

// introduce appends who this node is.
func (nw *network) introduce(b []byte) []byte {
	self := nw.self()
	b = append(append(b, self.Cluster[:]...), self.Instance[:]...)
	return append(append(b, byte(len(self.NodeID))), self.NodeID...)
}

// readCaller reads the node id that follows fixed, which ends in its length.
func readCaller(r io.Reader, fixed []byte) (caller, error) {
	var c caller
	n := copy(c.cluster[:], fixed)
	n += copy(c.instance[:], fixed[n:])
	id := make([]byte, fixed[n])
	_, err := io.ReadFull(r, id)
	c.nodeID = string(id)
	if err == nil && !validNodeID(c.nodeID) {
		err = fmt.Errorf("%q is not a node id", id)
	}
	return c, err
}

// dial makes a connection of the kind, by a deadline that covers the hello, which
// is lifted then.
func (nw *network) dial(ctx context.Context, addr string, kind connKind) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := nw.greet(conn, kind); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	if !stop() {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", addr, ctx.Err())
	}
	return conn, nil
}

// greet says hello and judges the answer.
func (nw *network) greet(conn net.Conn, kind connKind) error {
	if _, err := conn.Write(nw.introduce([]byte{byte(kind), networkVersion})); err != nil {
		return err
	}
	var fixed [answerFixed]byte
	if _, err := io.ReadFull(conn, fixed[:]); err != nil {
		return fmt.Errorf("no answer to hello: %w", err)
	}
	other, err := readCaller(conn, fixed[1:])
	if err != nil {
		return fmt.Errorf("answer to hello: %w", err)
	}
	if v := verdict(fixed[0]); v != accepted {
		return fmt.Errorf("%w by node %s: %s", errRefused, other.nodeID, refusals[v])
	}
	if kind != kindForm && judge(nw.self(), other) != accepted {
		return fmt.Errorf("%w: node %s has another data directory than the one that joined: a node that lost its data may not come back as itself", errRefused, other.nodeID)
	}
	return nil
}

// close ends the listener and every accepted connection, and waits for those who
// served them.
func (nw *network) close() error {
	nw.mu.Lock()
	nw.closed = true
	for conn := range nw.conns {
		conn.Close()
	}
	nw.mu.Unlock()
	err := nw.listener.Close()
	nw.done.Wait()
	return err
}

// writeFrame writes a length of four bytes and the payload.
func writeFrame(w io.Writer, payload []byte) error {
	frame := net.Buffers{binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload}
	_, err := frame.WriteTo(w)
	return err
}

// readFrame reads what writeFrame writes, at most limit bytes. Memory grows as
// they arrive: the length alone buys nothing.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return nil, fmt.Errorf("frame of %d bytes, at most %d are taken", n, limit)
	}
	payload := bytes.NewBuffer(make([]byte, 0, min(n, 64<<10)))
	if _, err := io.CopyN(payload, r, int64(n)); err != nil {
		return nil, fmt.Errorf("frame cut short: %w", err)
	}
	return payload.Bytes(), nil
}

// quieter lets each line through once in a while, however often it comes.
type quieter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	quietFor   = 5 * time.Second
	quietLines = 1000 // different ones remembered, so that strangers cannot fill memory
)

func (q *quieter) say(line string, log func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if now.Sub(q.last[line]) < quietFor {
		return
	}
	if q.last == nil || len(q.last) >= quietLines {
		q.last = map[string]time.Time{}
	}
	q.last[line] = now
	log()
}
