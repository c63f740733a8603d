package raftnode

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// A term question is eight bytes, a number of the asker's choice; its answer is
// that number and the answering node's term, eight bytes each.

// serveTerms answers term questions with term until the connection ends.
func serveTerms(conn net.Conn, term func() uint64) {
	var m [16]byte
	for {
		if _, err := io.ReadFull(conn, m[:8]); err != nil {
			return
		}
		binary.BigEndian.PutUint64(m[8:], term())
		if err := conn.SetWriteDeadline(time.Now().Add(termTimeout)); err != nil {
			return
		}
		if _, err := conn.Write(m[:]); err != nil {
			return
		}
	}
}

const (
	termTimeout = time.Second
	termRetry   = 20 * time.Millisecond // between attempts to reach a node
)

// question asks one node for its term, after the moment it was made, for as long
// as ctx says that somebody wants to know.
type question struct {
	ctx    context.Context
	answer func(term uint64)
}

// asker asks one node, one question at a time. Only the latest question counts:
// it was made last, so its answer serves whoever still waits.
type asker struct {
	dial func(context.Context) (net.Conn, error)

	mu     sync.Mutex
	latest *question
	wake   chan struct{} // of one element: latest is set

	conn net.Conn
	sent uint64
}

func newAsker(dial func(context.Context) (net.Conn, error)) *asker {
	return &asker{dial: dial, wake: make(chan struct{}, 1)}
}

// ask replaces the question that waits, if any. It does not block.
func (a *asker) ask(q *question) {
	a.mu.Lock()
	a.latest = q
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *asker) take() *question {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.latest
	a.latest = nil
	return q
}

// giveBack makes q wait again, unless there is a later one.
func (a *asker) giveBack(q *question) {
	a.mu.Lock()
	later := a.latest != nil
	a.mu.Unlock()
	if !later {
		a.ask(q)
	}
}

// run asks until ctx ends.
func (a *asker) run(ctx context.Context) {
	defer a.hangUp()
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		q := a.take()
		if q == nil || q.ctx.Err() != nil {
			continue
		}
		term, err := a.put(ctx)
		if err == nil {
			q.answer(term)
			continue
		}
		a.hangUp()
		a.giveBack(q)
		select {
		case <-time.After(termRetry):
		case <-ctx.Done():
		}
	}
}

// put sends one question and waits for its answer.
func (a *asker) put(ctx context.Context) (term uint64, err error) {
	if a.conn == nil {
		if a.conn, err = a.dial(ctx); err != nil {
			return 0, err
		}
	}
	conn := a.conn
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(termTimeout)); err != nil {
		return 0, err
	}
	a.sent++
	var m [16]byte
	binary.BigEndian.PutUint64(m[:], a.sent)
	if _, err := conn.Write(m[:8]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, m[:]); err != nil {
		return 0, err
	}
	if binary.BigEndian.Uint64(m[:8]) != a.sent {
		return 0, io.ErrUnexpectedEOF
	}
	return binary.BigEndian.Uint64(m[8:]), nil
}

func (a *asker) hangUp() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}
