package raftnode

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline is raft's, without its deadlock: raft stops taking answers at the first
// one that is not a success, while it may still be sending; with nobody to take the
// next answers the sender waits for ever, the follower is sent nothing more, and
// raft cannot be shut down. A follower whose disk is full answers like that.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
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
	p := &pipeline{AppendPipeline: inner, answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go p.pass()
	return p
}

// pass hands answers on up to the first that is not a success, and takes the rest.
func (p *pipeline) pass() {
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

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close ends the pipeline. It is idempotent.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}
