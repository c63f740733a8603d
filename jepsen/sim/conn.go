package sim

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection.
type conn struct {
	network       *network
	local, remote string
	in            *stream // what this end reads
	peer          *conn
	random        *rand.Rand // of what this end sends, under out's lock

	mu     sync.Mutex // of what this end sends
	closed bool
	late   time.Time // write deadline
}

var _ net.Conn = (*conn)(nil)

func newPair(nw *network, from, to string, number uint64) (here, there *conn) {
	here = &conn{network: nw, local: from, remote: to, in: newStream(), random: rand.New(rand.NewPCG(nw.seed, 2*number))}
	there = &conn{network: nw, local: to, remote: from, in: newStream(), random: rand.New(rand.NewPCG(nw.seed, 2*number+1))}
	here.peer, there.peer = there, here
	return here, there
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write implements net.Conn. What it takes arrives later, or never.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(p) == 0:
		return 0, nil
	case !c.late.IsZero() && !time.Now().Before(c.late):
		return 0, os.ErrDeadlineExceeded
	}
	if err := c.in.failure(); err != nil {
		return 0, err
	}
	delay, broken, ok := c.network.deliver(c.local, c.remote, c.random)
	if broken {
		c.reset()
		return 0, errReset
	}
	if !c.peer.in.send(append([]byte(nil), p...), time.Now().Add(delay), !ok) {
		return 0, os.ErrDeadlineExceeded // nothing was acknowledged for long
	}
	return len(p), nil
}

// reset breaks both ends.
func (c *conn) reset() {
	c.in.fail(errReset)
	c.peer.in.fail(errReset)
}

// Close implements net.Conn: the other end reads what was sent, and then the end.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	delay, _, ok := c.network.deliver(c.local, c.remote, c.random)
	c.peer.in.send(nil, time.Now().Add(delay), !ok)
	c.in.fail(net.ErrClosed)
	c.network.forget(c)
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return address(c.local) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return address(c.remote) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t) // never fails
	return c.SetReadDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.until(t)
	return nil
}

// SetWriteDeadline implements net.Conn. A write never waits.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = t
	return nil
}

// stream is bytes on their way in one direction.
type stream struct {
	mu       sync.Mutex
	segments []segment
	bytes    int
	last     time.Time // when the last of segments arrives: none overtakes another
	held     bool      // by a cut: nothing arrives until resume
	err      error
	deadline time.Time
	wake     chan struct{} // closed when any of this changes
}

// segment is what one write sent; without data it is the end.
type segment struct {
	data []byte
	at   time.Time
}

// window is how many bytes may be on their way.
const window = 16 << 20

func newStream() *stream { return &stream{wake: make(chan struct{})} }

// changed needs mu.
func (s *stream) changed() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// send takes a segment, unless too many bytes wait already.
func (s *stream) send(data []byte, at time.Time, held bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+len(data) > window {
		return false
	}
	if s.held = s.held || held; at.Before(s.last) {
		at = s.last
	}
	s.segments, s.bytes, s.last = append(s.segments, segment{data, at}), s.bytes+len(data), at
	s.changed()
	return true
}

// resume lets what a cut has held arrive from a time on.
func (s *stream) resume(from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.segments {
		if s.segments[i].at.Before(from) {
			s.segments[i].at = from
		}
	}
	if s.last.Before(from) {
		s.last = from
	}
	s.held = false
	s.changed()
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.changed()
	}
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *stream) until(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.changed()
}

func (s *stream) read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		n, wait, err := s.take(p, time.Now())
		wake := s.wake
		s.mu.Unlock()
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if wait < 0 {
			<-wake
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take reads what has arrived, or says how long to wait, for ever below 0.
func (s *stream) take(p []byte, now time.Time) (n int, wait time.Duration, err error) {
	wait = -1
	switch {
	case s.err != nil:
		return 0, 0, s.err
	case len(s.segments) > 0 && !s.held:
		first := &s.segments[0]
		if wait = first.at.Sub(now); wait <= 0 {
			if first.data == nil {
				return 0, 0, io.EOF
			}
			n = copy(p, first.data)
			if s.bytes -= n; n == len(first.data) {
				s.segments = s.segments[1:]
			} else {
				first.data = first.data[n:]
			}
			return n, 0, nil
		}
	}
	if !s.deadline.IsZero() {
		left := s.deadline.Sub(now)
		if left <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
		if wait < 0 || left < wait {
			wait = left
		}
	}
	return 0, wait, nil
}
