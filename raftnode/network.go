package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	helloTimeout = 5 * time.Second // for everything before a connection is accepted
	// greetings is how many accepted connections may be in their hello at once; a
	// stranger who opens more finds the door shut, not the node out of memory.
	greetings   = 256
	acceptRetry = 50 * time.Millisecond
)

// network is the raft port: it accepts, makes and checks connections.
type network struct {
	listener net.Listener
	logger   *slog.Logger
	security *security
	self     func() party // this node, without a nonce
	judge    func(connKind, *hello) verdict
	book     addressBook
	handlers map[connKind]func(net.Conn, party)
	refused  quieter
	greeting chan struct{}
	connect  func(ctx context.Context, addr string) (net.Conn, error)

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{} // accepted ones
	done   sync.WaitGroup
}

func listen(addr string, around Surroundings, security *security, logger *slog.Logger) (*network, error) {
	if around.Listen == nil {
		around.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	if around.Dial == nil {
		var d net.Dialer
		around.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	l, err := around.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("raft address: %w", err)
	}
	return &network{
		listener: l, connect: around.Dial, logger: logger, security: security, handlers: map[connKind]func(net.Conn, party){},
		greeting: make(chan struct{}, greetings), conns: map[net.Conn]struct{}{},
	}, nil
}

// handle sets what serves connections of a kind; fn owns the connection, and
// returns when it is closed. All are set before start.
func (nw *network) handle(kind connKind, fn func(net.Conn, party)) { nw.handlers[kind] = fn }

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
		select {
		case nw.greeting <- struct{}{}:
		default:
			conn.Close()
			nw.refused.say("greetings", func() {
				nw.logger.Warn("refused a connection on the raft port: too many have not said who they are", "from", conn.RemoteAddr().String())
			})
			continue
		}
		if nw.keep(conn) {
			go nw.serve(conn)
		}
	}
}

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

func (nw *network) serve(raw net.Conn) {
	defer nw.done.Done()
	defer func() {
		raw.Close()
		nw.mu.Lock()
		delete(nw.conns, raw)
		nw.mu.Unlock()
	}()
	conn, kind, from, err := nw.welcome(raw)
	<-nw.greeting
	if err != nil {
		from := raw.RemoteAddr().String()
		host, _, _ := net.SplitHostPort(from) // empty where there are no ports
		nw.refused.say(host+err.Error(), func() {
			nw.logger.Warn("refused a connection on the raft port", "from", from, "error", err)
		})
		return
	}
	nw.book.heard(from.serverID(), from.Addr)
	nw.handlers[kind](conn, from)
}

// welcome reads a hello, answers it, and makes sure of who sent it.
func (nw *network) welcome(raw net.Conn) (net.Conn, connKind, party, error) {
	fail := func(err error) (net.Conn, connKind, party, error) { return nil, 0, party{}, err }
	if err := raw.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return fail(err)
	}
	conn, err := nw.security.server(raw)
	if err != nil {
		return fail(err)
	}
	head := make([]byte, 2, 2+2+greetingLimit)
	if _, err := io.ReadFull(conn, head); err != nil {
		return fail(fmt.Errorf("hello: %w", err))
	}
	if head[0] == tlsHandshake {
		return fail(errors.New("hello: the other side uses TLS, this node does not"))
	}
	kind := connKind(head[0])
	from := &hello{}
	helloFrame, err := readGreeting(conn, head, from)
	if err != nil {
		return fail(fmt.Errorf("hello: %w", err))
	}
	if err := from.check(); err != nil {
		return fail(fmt.Errorf("hello: %w", err))
	}
	secret, err := nw.security.sharedSecret()
	if err != nil {
		return fail(err)
	}
	said := answer{party: nw.self(), Verdict: nw.verdict(head, from, secret)}
	if err := nw.answerHello(conn, from, said, helloFrame, secret); err != nil {
		return fail(err)
	}
	if said.Verdict != accepted {
		return fail(fmt.Errorf("%w: node %q of cluster %s: %s", errRefused, from.NodeID, from.Cluster, refusal(said.Verdict, &said.party, from)))
	}
	return conn, kind, from.party, conn.SetDeadline(time.Time{})
}

func (nw *network) verdict(head []byte, from *hello, secret []byte) verdict {
	kind := connKind(head[0])
	switch {
	case head[1] != networkVersion:
		return refusedVersion
	case nw.handlers[kind] == nil:
		return refusedKind
	case from.agrees(secret) != nil:
		return refusedSecret
	default:
		return nw.judge(kind, from)
	}
}

// answerHello sends the answer, and reads the proof where there is a secret.
func (nw *network) answerHello(conn net.Conn, from *hello, said answer, helloFrame, secret []byte) error {
	if secret != nil {
		said.Nonce = newNonce()
	}
	var out bytes.Buffer
	answerFrame, err := writeGreeting(&out, nil, said)
	if err != nil {
		return err
	}
	proven := secret != nil && len(from.Nonce) == nonceSize
	if proven {
		out.Write(mac(secret, macAcceptor, helloFrame, answerFrame))
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		return fmt.Errorf("answer to hello: %w", err)
	}
	if !proven {
		return nil
	}
	if err := readMAC(conn, mac(secret, macDialer, helloFrame, answerFrame)); err != nil {
		return fmt.Errorf("node %q: %w", from.NodeID, err)
	}
	return nil
}

// dial makes a connection of the kind to want, or for kindControl to whoever
// answers at addr when want is empty. The deadline for the hello is lifted then.
func (nw *network) dial(ctx context.Context, addr string, kind connKind, want raft.ServerID) (net.Conn, party, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	raw, err := nw.connect(ctx, addr)
	if err != nil {
		return nil, party{}, err
	}
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, other, err := nw.greet(raw, kind, want)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, party{}, fmt.Errorf("%s: %w", addr, err)
	}
	nw.book.heard(other.serverID(), other.Addr)
	return conn, other, nil
}

// greet says hello and judges the answer.
func (nw *network) greet(raw net.Conn, kind connKind, want raft.ServerID) (net.Conn, party, error) {
	fail := func(err error) (net.Conn, party, error) { return nil, party{}, err }
	conn, err := nw.security.client(raw)
	if err != nil {
		return fail(err)
	}
	secret, err := nw.security.sharedSecret()
	if err != nil {
		return fail(err)
	}
	mine := &hello{party: nw.self(), Want: want}
	if secret != nil {
		mine.Nonce = newNonce()
	}
	helloFrame, err := writeGreeting(conn, []byte{byte(kind), networkVersion}, mine)
	if err != nil {
		return fail(err)
	}
	var other answer
	answerFrame, err := readAnswer(conn, &other)
	if err != nil {
		return fail(err)
	}
	if err := other.agrees(secret); err != nil {
		return fail(err)
	}
	if secret != nil {
		if err := readMAC(conn, mac(secret, macAcceptor, helloFrame, answerFrame)); err != nil {
			return fail(err)
		}
		if _, err := conn.Write(mac(secret, macDialer, helloFrame, answerFrame)); err != nil {
			return fail(err)
		}
	}
	return conn, other.party, judgeAnswer(kind, mine, &other)
}

func readAnswer(conn net.Conn, other *answer) ([]byte, error) {
	frame, err := readGreeting(conn, nil, other)
	if err != nil {
		return nil, fmt.Errorf("no answer to hello: %w", err)
	}
	return frame, other.check()
}

// judgeAnswer is the dialer's side of Node.judge: what was accepted must also be
// what was wanted.
func judgeAnswer(kind connKind, mine *hello, other *answer) error {
	v := other.Verdict
	switch {
	case v != accepted:
	case mine.Want != "" && other.serverID() != mine.Want:
		v = refusedWant
	case kind != kindControl && other.Cluster != mine.Cluster:
		v = refusedCluster
	}
	if v != accepted {
		return fmt.Errorf("%w by node %s: %s", errRefused, other.NodeID, refusal(v, &other.party, mine))
	}
	return nil
}

// refusal says why by refuses from.
func refusal(v verdict, by *party, from *hello) string {
	switch v {
	case refusedVersion:
		return fmt.Sprintf("it speaks version %d of the protocol, or another", networkVersion)
	case refusedCluster:
		return fmt.Sprintf("it belongs to cluster %s, node %s to cluster %s", by.Cluster, from.NodeID, from.Cluster)
	case refusedMember:
		return fmt.Sprintf("node %s, with the data directory %s, is not a member of the cluster", from.NodeID, from.Instance)
	case refusedForming:
		return "it is part of no cluster yet"
	case refusedWant:
		if nameOf(from.Want) == by.NodeID {
			return fmt.Sprintf("it has the data directory %s, not %s", by.Instance, instanceOf(from.Want))
		}
		return fmt.Sprintf("it is not node %s", nameOf(from.Want))
	case refusedSecret:
		return "one of the two has a shared secret, the other has none"
	default:
		return "it does not know this kind of connection"
	}
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
