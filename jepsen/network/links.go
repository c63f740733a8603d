// Package network stands between the nodes of a cluster: each connection from one to
// another goes through a proxy of that pair, which can hold up what is sent either way.
//
// What is held up arrives later, in order, as with a network that loses packets until
// it is repaired; ends of connections are held up with it.
package network

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Links are the proxies of one cluster. Its methods may be called from any goroutine.
type Links struct {
	mu    sync.Mutex
	links map[pair]*link
}

// pair is who made a connection, and to whom.
type pair struct{ from, to string }

// New has no proxies yet.
func New() *Links { return &Links{links: map[pair]*link{}} }

// Between is the address at which node from reaches node to, which listens at addr,
// through a proxy that is made when there is none.
func (l *Links) Between(from, to, addr string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := pair{from, to}
	if l.links[p] == nil {
		k, err := newLink(addr)
		if err != nil {
			return "", fmt.Errorf("proxy from %s to %s: %w", from, to, err)
		}
		l.links[p] = k
	}
	return l.links[p].addr(), nil
}

// Cut holds up all that node from sends to node to, on connections of either's making,
// until Heal. What to sends to from still arrives.
func (l *Links) Cut(from, to string) { l.each(from, to, (*gate).shut) }

// Slow lets everything that node from sends to node to take as much longer, until Heal.
func (l *Links) Slow(from, to string, by time.Duration) {
	l.each(from, to, func(g *gate) { g.slow(by) })
}

// each calls fn with the gates of what from sends to to.
func (l *Links) each(from, to string, fn func(*gate)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.links[pair{from, to}]; k != nil {
		fn(k.there)
	}
	if k := l.links[pair{to, from}]; k != nil {
		fn(k.back)
	}
}

// Heal lets everything through again.
func (l *Links) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		k.there.open()
		k.back.open()
	}
}

// Close ends all proxies, and the connections through them.
func (l *Links) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		k.close()
	}
}

// link is the proxy of one pair.
type link struct {
	listener    net.Listener
	target      string
	there, back *gate // of what the one that connects sends, and of what it is sent
	closed      chan struct{}
	done        sync.WaitGroup
}

func newLink(target string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, target: target, there: newGate(), back: newGate(), closed: make(chan struct{})}
	k.done.Go(k.accept)
	return k, nil
}

func (k *link) addr() string { return k.listener.Addr().String() }

func (k *link) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return // it is closed
		}
		k.done.Go(func() { k.relay(conn) })
	}
}

// relay connects to the target, and copies both ways until either ends. A target that
// is down shows as a connection that ends at once.
func (k *link) relay(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", k.target)
	if err != nil {
		return
	}
	defer far.Close()
	over := make(chan struct{})
	go func() {
		select {
		case <-k.closed:
		case <-over:
		}
		near.Close()
		far.Close()
	}()
	var copies sync.WaitGroup
	var once sync.Once
	end := func() { once.Do(func() { close(over) }) }
	copies.Go(func() { k.there.copy(far, near, over, k.closed); end() })
	copies.Go(func() { k.back.copy(near, far, over, k.closed); end() })
	copies.Wait()
}

func (k *link) close() {
	close(k.closed)
	k.listener.Close() //nolint:errcheck // nobody needs it any more
	k.done.Wait()
}
