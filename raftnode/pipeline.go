package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline is raft's, without its deadlock: raft stops taking answers at the first
// one that is not a success, while it may still be sending; with nobody to take the
// next answers the sender waits for ever, the follower is sent nothing more, and
// raft cannot be shut down. A follower whose disk is full answers like that.
//
// The one that takes answers is only told to end by a sender that comes to its end. One
// that could not read the log does not (see logStore.fatal), so the last answer of every
// pipeline says it too.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture // of one element, so that the last waits for nobody
	once    sync.Once
	closed  chan struct{}
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(inner), nil
}

func newPipeline(inner raft.AppendPipeline) *pipeline {
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture, 1), closed: make(chan struct{})}
	go p.pass()
	return p
}

// pass hands answers on up to the first that is not a success, and takes the rest.
func (p *pipeline) pass() {
	defer p.last()
	ended := false
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			if ended {
				continue
			}
			select {
			case p.answers <- f:
				ended = f.Error() != nil || !f.Response().Success || f.Response().Term > f.Request().Term
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

// last replaces what nobody has taken by an answer that is not a success.
func (p *pipeline) last() {
	select {
	case <-p.answers:
	default:
	}
	p.answers <- endOfPipeline{}
}

// endOfPipeline is an answer that nobody gave.
type endOfPipeline struct{ raft.AppendFuture }

// Start implements raft.AppendFuture.
func (endOfPipeline) Start() time.Time { return time.Now() }

// Request implements raft.AppendFuture.
func (endOfPipeline) Request() *raft.AppendEntriesRequest { return &raft.AppendEntriesRequest{} }

// Response implements raft.AppendFuture.
func (endOfPipeline) Response() *raft.AppendEntriesResponse { return &raft.AppendEntriesResponse{} }

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close ends the pipeline. It is idempotent.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}
