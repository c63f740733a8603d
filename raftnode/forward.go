package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

// A forwarded request is a frame; its answer a byte that says whether the
// receiver led, and if so a frame. Before, a byte a second says that the leader is
// still at work: a write of many parts may take as long as its caller waits.
const (
	answeredByLeader byte = 0
	answeredNotLead  byte = 1
	stillAtWork      byte = 2
)

const workSign = time.Second

const (
	forwardSlack       = 64 << 10  // a request's frame beyond the body limit
	forwardAnswerLimit = 256 << 20 // an answer of 100,000 rows takes a fifth of it
	forwardIdle        = 64        // idle connections kept
	forwardLimit       = 1024      // requests in flight
)

// Forward hands payload to the leader's handler and returns its answer. Errors:
// ErrNotLeader when no leader is known, none was reached or the one reached does
// not lead: nothing was done; *ops.Error with OUTCOME_UNKNOWN after the first byte
// was sent, OVERLOADED, REQUEST_TOO_LARGE, SHUTTING_DOWN or NODE_CORRUPT; ctx's,
// when it ended before anything was sent.
func (n *Node) Forward(ctx context.Context, payload []byte) ([]byte, error) {
	if err := n.serving(); err != nil {
		return nil, err
	}
	if limit := n.forwardRequestLimit(); len(payload) > limit {
		return nil, ops.Errorf(ops.RequestTooLarge, "request of %d bytes, at most %d are forwarded", len(payload), limit)
	}
	_, leader := n.raft.LeaderWithID()
	if leader == "" || leader == n.id() {
		return nil, ErrNotLeader
	}
	if !n.forwards.enter() {
		return nil, ops.Errorf(ops.Overloaded, "%d requests to the leader are in flight", forwardLimit)
	}
	defer n.forwards.leave()
	conn, err := n.forwards.get(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	// A caller that has gone asks for nothing; the watch on its context alone
	// could lose the race against the first byte.
	if err := ctx.Err(); err != nil {
		n.forwards.put(leader, conn)
		return nil, err
	}
	answer, err := n.exchange(ctx, conn, payload)
	if err != nil && !errors.Is(err, ErrNotLeader) {
		conn.Close()
		return nil, unknown("forwarded to %s: %v", nameOf(leader), err)
	}
	n.forwards.put(leader, conn)
	return answer, err
}

func (n *Node) forwardRequestLimit() int { return n.config.Settings.Limits.RequestBytes + forwardSlack }

// exchange sends one request and reads its answer. It ends with ctx, or when the
// leader gives no sign of itself for transportTimeout.
func (n *Node) exchange(ctx context.Context, raw net.Conn, payload []byte) ([]byte, error) {
	conn := patientConn{raw}
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := writeFrame(conn, payload); err != nil {
		return nil, err
	}
	for led := [1]byte{stillAtWork}; led[0] == stillAtWork; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(conn, led[:]); err != nil {
			return nil, err
		}
		if led[0] == answeredNotLead {
			return nil, ErrNotLeader
		}
	}
	return readFrame(conn, forwardAnswerLimit)
}

// HandleForwarded sets what answers requests that other nodes forward to this one
// while it leads. The handler gets the payload for itself, and a context that ends
// with the node or when the other side has gone.
func (n *Node) HandleForwarded(handler func(ctx context.Context, payload []byte) []byte) {
	n.handler.Store(&handler)
}

// serveForwarded answers requests until the connection ends.
func (n *Node) serveForwarded(conn net.Conn, _ party) {
	for {
		payload, err := readFrame(conn, n.forwardRequestLimit())
		if err != nil {
			return
		}
		if err := n.answerForwarded(conn, payload); err != nil {
			return
		}
	}
}

func (n *Node) answerForwarded(conn net.Conn, payload []byte) error {
	patient := patientConn{conn}
	handler := n.handler.Load()
	if handler == nil || n.leading() == nil {
		_, err := patient.Write([]byte{answeredNotLead})
		return err
	}
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	answered := make(chan []byte, 1)
	go func() { answered <- (*handler)(ctx, payload) }()
	signs := time.NewTicker(workSign)
	defer signs.Stop()
	for {
		select {
		case answer := <-answered:
			if _, err := patient.Write([]byte{answeredByLeader}); err != nil {
				return err
			}
			return writeFrame(patient, answer)
		case <-signs.C:
			if _, err := patient.Write([]byte{stillAtWork}); err != nil {
				cancel()
				<-answered
				return err
			}
		}
	}
}

// forwards keeps connections to the leader, each of which carries one request at a
// time.
type forwards struct {
	dial  dialFunc
	slots chan struct{}

	mu     sync.Mutex
	closed bool
	to     raft.ServerID // of the idle connections
	idle   []net.Conn
}

func newForwards(dial dialFunc) *forwards {
	return &forwards{dial: dial, slots: make(chan struct{}, forwardLimit)}
}

func (f *forwards) enter() bool {
	select {
	case f.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (f *forwards) leave() { <-f.slots }

// get is an idle connection that is still open at the other end, or a new one.
func (f *forwards) get(ctx context.Context, to raft.ServerID) (net.Conn, error) {
	for {
		conn := f.pop(to)
		if conn == nil {
			return f.dial(ctx, to)
		}
		if alive(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

func (f *forwards) pop(to raft.ServerID) net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to != f.to {
		f.drop()
		f.to = to
	}
	if len(f.idle) == 0 {
		return nil
	}
	conn := f.idle[len(f.idle)-1]
	f.idle = f.idle[:len(f.idle)-1]
	return conn
}

func (f *forwards) put(to raft.ServerID, conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || to != f.to || len(f.idle) == forwardIdle || conn.SetDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	f.idle = append(f.idle, conn)
}

func (f *forwards) drop() {
	for _, conn := range f.idle {
		conn.Close()
	}
	f.idle = nil
}

func (f *forwards) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.drop()
}

// alive looks, without waiting, whether the other end has closed an idle
// connection. A request on a connection that a leader closed when it went away
// would fail with its outcome unknown, though nothing was done.
func alive(conn net.Conn) bool {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	file, ok := conn.(syscall.Conn)
	if !ok {
		return quiet(conn)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		open = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && open
}

// quiet says the same of a connection that the kernel does not know: see
// Surroundings.Dial.
func quiet(conn net.Conn) bool {
	conn.SetReadDeadline(time.Unix(1, 0))
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded) && conn.SetReadDeadline(time.Time{}) == nil
}
