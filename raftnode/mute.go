package raftnode

import (
	"errors"
	"net"
	"sync"
)

// errMuted is the error of dialing for raft while the node is mute.
var errMuted = errors.New("this node sends nothing while it makes way for another leader")

// muter cuts raft's connections to others. raft sends heartbeats beside its main
// loop, so a leader whose main loop hangs keeps its followers from electing another
// one for as long as it is heard.
type muter struct {
	mu    sync.Mutex
	muted bool
	conns map[*mutableConn]struct{}
}

// mutableConn is a connection that raft dialed.
type mutableConn struct {
	net.Conn
	owner *muter
}

// Close closes the connection.
func (c *mutableConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// keep takes a new connection, or closes it while the node is mute.
func (m *muter) keep(conn net.Conn) (net.Conn, error) {
	c := &mutableConn{conn, m}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.muted {
		return nil, errors.Join(errMuted, conn.Close())
	}
	if m.conns == nil {
		m.conns = map[*mutableConn]struct{}{}
	}
	m.conns[c] = struct{}{}
	return c, nil
}

// mute cuts what there is and refuses what comes, until speak.
func (m *muter) mute() {
	m.mu.Lock()
	m.muted = true
	cut := m.conns
	m.conns = nil
	m.mu.Unlock()
	for c := range cut {
		_ = c.Conn.Close() // whoever uses it hears of it
	}
}

// speak ends mute.
func (m *muter) speak() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.muted = false
}

func (m *muter) isMute() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.muted
}
