package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// network carries bytes between hosts as TCP does: in order, late, or not at all until
// a cut is over. What a packet network loses, doubles or reorders shows in TCP as delay,
// and in the end as a broken connection.
type network struct {
	seed uint64

	mu    sync.Mutex
	hosts map[string]*host // by address
	links map[[2]string]*link
	conns []*conn // both ends, in the order in which they were made
	made  uint64  // connections so far
}

// link is one direction between two addresses.
type link struct {
	cut    int           // by how many faults
	slow   time.Duration // beyond the usual delay
	breaks float64       // chance that sending breaks the connection
}

// Usual delay of a link.
const (
	delayFrom = 100 * time.Microsecond
	delayTo   = 2 * time.Millisecond
)

func newNetwork(seed uint64) *network {
	return &network{seed: seed, hosts: map[string]*host{}, links: map[[2]string]*link{}}
}

// host is one run of a process at an address.
type host struct {
	network *network
	addr    string
	backlog chan *conn
	closed  chan struct{}
	once    sync.Once
	dark    bool // the machine is off: nobody is told
}

// start puts a new process at an address. What the one before left open is reset.
func (nw *network) start(addr string) *host {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.resetOf(addr)
	h := &host{network: nw, addr: addr, backlog: make(chan *conn, 256), closed: make(chan struct{})}
	nw.hosts[addr] = h
	return h
}

// stop takes a process away. dark says that its machine is off too: others are not
// told that their connections are gone.
func (nw *network) stop(h *host, dark bool) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	h.dark = dark
	h.once.Do(func() { close(h.closed) })
	if !dark {
		nw.resetOf(h.addr)
	}
	for _, c := range nw.conns {
		if c.local == h.addr {
			c.in.fail(net.ErrClosed)
		}
	}
}

// resetOf breaks all connections of an address. It needs mu.
func (nw *network) resetOf(addr string) {
	nw.conns = slices.DeleteFunc(nw.conns, func(c *conn) bool {
		of := c.local == addr || c.remote == addr
		if of {
			c.reset()
		}
		return of
	})
}

func (nw *network) link(from, to string) *link {
	l := nw.links[[2]string{from, to}]
	if l == nil {
		l = &link{}
		nw.links[[2]string{from, to}] = l
	}
	return l
}

// change alters the link from one address to another, and wakes whom it kept waiting.
func (nw *network) change(from, to string, fn func(*link)) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	l := nw.link(from, to)
	before := l.cut > 0
	fn(l)
	if !before || l.cut > 0 {
		return
	}
	for _, c := range nw.conns {
		if c.remote == from && c.local == to {
			c.in.resume(time.Now().Add(retransmit))
		}
	}
}

// retransmit is about how long TCP takes to find out that a cut is over.
const retransmit = 200 * time.Millisecond

// deliver is when bytes sent now arrive; ok is false while the link is cut.
func (nw *network) deliver(from, to string, r *rand.Rand) (delay time.Duration, broken, ok bool) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	l := nw.link(from, to)
	delay = delayFrom + time.Duration(r.Int64N(int64(delayTo-delayFrom)))
	if l.slow > 0 {
		delay += l.slow/2 + time.Duration(r.Int64N(int64(l.slow)))
	}
	h := nw.hosts[to]
	return delay, r.Float64() < l.breaks, l.cut == 0 && h != nil && !h.dark
}

// dialRetry is how often a dial looks whether it gets through.
const dialRetry = 50 * time.Millisecond

// dial connects from a host, as raftnode.Surroundings.Dial.
func (h *host) dial(ctx context.Context, addr string) (net.Conn, error) {
	random := rand.New(rand.NewPCG(h.network.seed, 0))
	for {
		there, _, ok := h.network.deliver(h.addr, addr, random)
		back, _, heard := h.network.deliver(addr, h.addr, random)
		delay := there + back
		if ok = ok && heard; !ok {
			delay = dialRetry
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, dialError(addr, ctx.Err())
		case <-h.closed:
			return nil, dialError(addr, net.ErrClosed)
		}
		if ok {
			return h.connect(addr)
		}
	}
}

func dialError(addr string, err error) error {
	return &net.OpError{Op: "dial", Net: "sim", Addr: address(addr), Err: err}
}

// connect makes a connection to the process at addr, if there is one that listens.
func (h *host) connect(addr string) (net.Conn, error) {
	nw := h.network
	nw.mu.Lock()
	defer nw.mu.Unlock()
	to := nw.hosts[addr]
	if to == nil || isClosed(to.closed) {
		return nil, dialError(addr, syscall.ECONNREFUSED)
	}
	if isClosed(h.closed) {
		return nil, dialError(addr, net.ErrClosed)
	}
	nw.made++
	here, there := newPair(nw, h.addr, addr, nw.made)
	select {
	case to.backlog <- there:
	default:
		return nil, dialError(addr, syscall.ECONNREFUSED)
	}
	nw.conns = append(nw.conns, here, there)
	return here, nil
}

// forget is for an end that is closed.
func (nw *network) forget(c *conn) {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.conns = slices.DeleteFunc(nw.conns, func(other *conn) bool { return other == c })
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.backlog:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *host) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *host) Addr() net.Addr { return address(h.addr) }

// address is host:port.
type address string

// Network implements net.Addr.
func (address) Network() string { return "sim" }

func (a address) String() string { return string(a) }

var errReset = errors.New("connection reset")
