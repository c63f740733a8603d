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
