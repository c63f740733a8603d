package raftnode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// echo makes a node answer with its name and the request.
func echo(n *Node) {
	n.HandleForwarded(func(_ context.Context, payload []byte) []byte {
		return append([]byte(n.config.NodeID+" "), payload...)
	})
}

func TestForwardReachesTheLeader(t *testing.T) {
	// The leader stays the same while three nodes of one process are busy.
	c := startCluster(t, func(c *Config) {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = time.Second, time.Second, time.Second
	})
	for _, n := range c.nodes {
		echo(n)
	}
	leader := c.nodes[c.leader()].config.NodeID
	large := bytes.Repeat([]byte("x"), c.configs[0].Settings.Limits.RequestBytes)
	var all sync.WaitGroup
	for _, i := range c.followers() {
		for j := range 100 {
			all.Go(func() {
				answer, err := c.nodes[i].Forward(t.Context(), fmt.Append(nil, j))
				if err != nil || string(answer) != fmt.Sprintf("%s %d", leader, j) {
					t.Errorf("answer %q, %v", answer, err)
				}
			})
		}
		answer, err := c.nodes[i].Forward(t.Context(), large)
		require.NoError(t, err)
		require.Len(t, answer, len(large)+3)
		_, err = c.nodes[i].Forward(t.Context(), append(large, make([]byte, forwardSlack+1)...))
		requireCode(t, err, ops.RequestTooLarge)
	}
	all.Wait()
	_, err := c.nodes[c.leader()].Forward(t.Context(), nil)
	require.ErrorIs(t, err, ErrNotLeader, "the leader forwards to nobody")
}

func TestForwardAfterTheLeaderWentAway(t *testing.T) {
	c := startCluster(t, nil)
	for _, n := range c.nodes {
		echo(n)
	}
	gone := c.leader()
	follower := c.nodes[c.followers()[0]]
	for range 5 { // leaves an idle connection
		_, err := follower.Forward(t.Context(), nil)
		require.NoError(t, err)
	}
	c.crash(gone)
	// What failed was not sent: the dead leader's idle connections are not used.
	eventually(t, func() bool {
		_, err := follower.Forward(t.Context(), []byte("again"))
		if err != nil {
			require.ErrorIs(t, err, ErrNotLeader)
		}
		return err == nil || follower.leading() != nil
	}, "a new leader answers")
}

func TestForwardToANodeThatDoesNotLead(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	echo(leader)
	follower := c.nodes[c.followers()[0]]
	_, err := follower.Forward(t.Context(), nil)
	require.NoError(t, err)
	leader.leads.Store(nil) // as while it takes over
	for range 3 {
		_, err := follower.Forward(t.Context(), nil)
		require.ErrorIs(t, err, ErrNotLeader)
	}
}

func TestForwardedRequestWithoutAnAnswer(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	got, leave := make(chan struct{}, 2), make(chan struct{})
	leader.HandleForwarded(func(_ context.Context, _ []byte) []byte {
		got <- struct{}{}
		<-leave
		return nil
	})
	follower := c.nodes[c.followers()[0]]
	failed := make(chan error, 1)
	forward := func(ctx context.Context) {
		_, err := follower.Forward(ctx, nil)
		failed <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go forward(ctx)
	<-got
	cancel()
	requireCode(t, <-failed, ops.OutcomeUnknown)

	go forward(t.Context())
	<-got
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		c.crash(c.leader())
	}()
	requireCode(t, <-failed, ops.OutcomeUnknown)
	close(leave)
	<-crashed
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, writeFrame(&b, []byte("abc")))
	whole := bytes.Clone(b.Bytes())
	got, err := readFrame(&b, 3)
	require.NoError(t, err)
	require.Equal(t, "abc", string(got))
	_, err = readFrame(bytes.NewReader(whole), 2)
	require.ErrorContains(t, err, "at most 2")
	for n := range whole {
		_, err = readFrame(bytes.NewReader(whole[:n]), 3)
		require.Error(t, err)
	}
	require.Less(t, testing.AllocsPerRun(1, func() {
		_, _ = readFrame(bytes.NewReader([]byte{0x10, 0, 0, 0, 1}), 1<<30)
	}), 100.0)
}

// A write of many parts may take longer than any wait for one of them, as long as
// its caller waits and its leader is there.
func TestForwardWaitsForALongAnswer(t *testing.T) {
	c := startCluster(t, nil)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	for _, n := range c.nodes {
		n.HandleForwarded(func(ctx context.Context, payload []byte) []byte {
			begun <- struct{}{}
			d, err := time.ParseDuration(string(payload))
			if err == nil {
				err = wait(ctx, d)
			}
			ended <- err
			return payload
		})
	}
	follower := c.nodes[c.followers()[0]]
	took := transportTimeout + workSign
	answer, err := follower.Forward(t.Context(), []byte(took.String()))
	require.NoError(t, err)
	require.Equal(t, took.String(), string(answer))
	<-begun
	require.NoError(t, <-ended)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-begun
		cancel()
	}()
	_, err = follower.Forward(ctx, []byte("1h"))
	requireCode(t, err, ops.OutcomeUnknown)
	require.ErrorIs(t, <-ended, context.Canceled, "the leader hears that nobody waits")
}

// An answer of many megabytes had five seconds for all of it, however well it moved.
func TestPatientWriteGetsTimeAsBytesMove(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	conn := &deadlines{Conn: near}
	payload := bytes.Repeat([]byte("0123456789abcdef"), 3*patientChunk/16)
	got := make(chan []byte, 1)
	go func() {
		all, _ := readFrame(far, len(payload))
		got <- all
	}()
	require.NoError(t, writeFrame(patientConn{conn}, payload))
	require.Equal(t, payload, <-got)
	require.Equal(t, 1+3, conn.set, "the length, and each part")
}

// deadlines counts how often one is set for a write.
type deadlines struct {
	net.Conn
	set int
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set++
	return d.Conn.SetWriteDeadline(at)
}
