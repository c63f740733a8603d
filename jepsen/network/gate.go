package network

import (
	"net"
	"sync"
	"time"
)

// gate is one direction of a link.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	delay  time.Duration
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		g.opened = make(chan struct{})
	}
}

// open lets everything through at once.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = 0
	if !g.isOpen() {
		close(g.opened)
	}
}

func (g *gate) slow(by time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = by
}

// pass waits until the gate is open, and for its delay; false when the connection is
// over or the link closed before.
func (g *gate) pass(over, closed <-chan struct{}) bool {
	g.mu.Lock()
	opened, delay := g.opened, g.delay
	g.mu.Unlock()
	if !await(opened, over, closed) {
		return false
	}
	if delay == 0 {
		return true
	}
	late := make(chan struct{})
	timer := time.AfterFunc(delay, func() { close(late) })
	defer timer.Stop()
	return await(late, over, closed)
}

// await says whether the first one came before the others.
func await(first, over, closed <-chan struct{}) bool {
	select {
	case <-first:
		return true
	case <-over:
		return false
	case <-closed:
		return false
	}
}

// copyBytes is how much is let through at a time.
const copyBytes = 32 << 10

// copy copies until the source ends, and lets its end pass the gate like its bytes.
func (g *gate) copy(to, from net.Conn, over, closed <-chan struct{}) {
	buf := make([]byte, copyBytes)
	for {
		n, err := from.Read(buf)
		if !g.pass(over, closed) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
