package raftnode

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// raft takes no answer after one that is not a success, and sends on for a while.
func TestPipelineOutlivesAFailedAppend(t *testing.T) {
	open := func() *raft.NetworkTransport {
		tr, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 1, time.Second, hclog.NewNullLogger())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		return tr
	}
	leader, follower := open(), open()
	go func() {
		for {
			select {
			case rpc := <-follower.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Success: false}, nil)
			case <-t.Context().Done():
				return
			}
		}
	}()
	inner, err := leader.AppendEntriesPipeline("b", follower.LocalAddr())
	require.NoError(t, err)
	p := newPipeline(inner)
	defer p.Close()
	sent := make(chan error, 1)
	go func() {
		for range 20 {
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	require.False(t, (<-p.Consumer()).Response().Success)
	select {
	case err := <-sent:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		require.Fail(t, "the sender waits for ever")
	}
}

// raft's goroutine that takes the answers is told to end by the one that sends. Where
// that cannot read the log it ends without a word: Close of the node waited for ever.
func TestUnreadableLogDoesNotKeepANodeFromStopping(t *testing.T) {
	inner := idlePipeline{consumer: make(chan raft.AppendFuture, 1)}
	inner.consumer <- answered{}
	p := newPipeline(inner)
	require.True(t, (<-p.Consumer()).Response().Success)
	require.NoError(t, p.Close())
	select {
	case last := <-p.Consumer():
		require.False(t, last.Response().Success)
		require.Zero(t, last.Response().Term, "raft takes a later term for another leader's")
		require.Empty(t, last.Request().Entries)
		require.False(t, last.Start().IsZero())
	case <-time.After(time.Minute):
		require.Fail(t, "who takes answers waits for ever")
	}
}

// idlePipeline sends nothing.
type idlePipeline struct{ consumer chan raft.AppendFuture }

func (idlePipeline) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	return nil, raft.ErrPipelineShutdown
}
func (p idlePipeline) Consumer() <-chan raft.AppendFuture { return p.consumer }
func (idlePipeline) Close() error                         { return nil }

// answered is a success.
type answered struct{ raft.AppendFuture }

func (answered) Error() error                        { return nil }
func (answered) Request() *raft.AppendEntriesRequest { return &raft.AppendEntriesRequest{} }
func (answered) Response() *raft.AppendEntriesResponse {
	return &raft.AppendEntriesResponse{Success: true}
}
