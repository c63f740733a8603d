package sessions

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

const timeout = 9 * time.Second

// cluster is one real node, and sessions whose clock the test moves.
type cluster struct {
	*Sessions
	t     *testing.T
	node  *raftnode.Node
	clock *clockwork.FakeClock
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := raftnode.DefaultConfig()
	config.NodeID, config.DataDir, config.RaftAddr = "n1", filepath.Join(t.TempDir(), "n1"), "127.0.0.1:0"
	config.CommitTimeout, config.CheckpointInterval = 10*time.Millisecond, 0
	node, err := raftnode.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	require.Eventually(t, func() bool { return node.Ready() == nil }, time.Minute, time.Millisecond, "the node is ready")
	c := &cluster{t: t, node: node, clock: clockwork.NewFakeClock()}
	c.Sessions = New(node, Config{Timeout: timeout, Clock: c.clock, Registerer: prometheus.NewRegistry()})
	return c
}

// lead runs the sessions until the returned function is called.
func (c *cluster) lead() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.brokers != nil
	}, time.Minute, time.Millisecond, "sessions are kept")
	return func() {
		cancel()
		<-done
	}
}

func (c *cluster) propose(w ops.Write) any {
	c.t.Helper()
	result, err := c.node.Propose(c.t.Context(), w)
	require.NoError(c.t, err)
	return result.Answer
}

// register registers a broker that was shut down clean.
func (c *cluster) register(id int32, incarnation string) (epoch int64) {
	c.t.Helper()
	answer := c.propose(&ops.RegisterBrokerRequest{BrokerID: id, IncarnationID: incarnation, CleanShutdown: true}).(*ops.RegisterBrokerResponse)
	require.Equal(c.t, ops.None, answer.Error)
	return answer.BrokerEpoch
}

// beat is a heartbeat that must be taken; logged says whether it made entries.
func (c *cluster) beat(id int32, epoch int64) (logged bool) {
	c.t.Helper()
	answer, index, err := c.Heartbeat(c.t.Context(), &ops.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: epoch})
	require.NoError(c.t, err)
	require.Equal(c.t, &ops.BrokerHeartbeatResponse{Error: ops.None, SessionMs: 9000}, answer)
	return index > 0
}

func (c *cluster) broker(id int32) (b store.Broker) {
	c.t.Helper()
	c.view(func(tx *store.ReadTx) (err error) {
		b, _, err = tx.Broker(id)
		return err
	})
	return b
}

func (c *cluster) partition(k store.LogKey) (r store.Registration) {
	c.t.Helper()
	c.view(func(tx *store.ReadTx) (err error) {
		r, _, err = tx.Registration(k)
		return err
	})
	return r
}

func (c *cluster) view(fn func(*store.ReadTx) error) {
	c.t.Helper()
	_, err := c.node.View(c.t.Context(), raftnode.ReadOptions{Level: raftnode.Stale}, fn)
	require.NoError(c.t, err)
}

// A heartbeat is logged when it unfences the broker; later ones are answered from memory
// as long as nothing has changed.
func TestHeartbeats(t *testing.T) {
	c := newCluster(t)
	defer c.lead()()
	epoch := c.register(1, "a")
	require.True(t, c.broker(1).Fenced)
	require.True(t, c.beat(1, epoch), "unfenced")
	require.False(t, c.broker(1).Fenced)
	require.False(t, c.beat(1, epoch)) // looks at the state, which has changed by the first
	before := testutil.ToFloat64(c.metrics.memory)
	last := c.node.Status().LastIndex
	for range 5 {
		require.False(t, c.beat(1, epoch))
	}
	require.Equal(t, before+5, testutil.ToFloat64(c.metrics.memory))
	require.Equal(t, last, c.node.Status().LastIndex)

	for code, r := range map[ops.Code]*ops.BrokerHeartbeatRequest{
		ops.StaleBrokerEpoch: {BrokerID: 1, BrokerEpoch: epoch - 1}, ops.BrokerIDNotRegistered: {BrokerID: 2, BrokerEpoch: epoch},
	} {
		answer, _, err := c.Heartbeat(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, &ops.BrokerHeartbeatResponse{Error: code, Fenced: true, SessionMs: -1}, answer)
	}
}

// What changes a broker is seen by its next heartbeat, though memory says otherwise.
func TestHeartbeatAfterAChange(t *testing.T) {
	c := newCluster(t)
	defer c.lead()()
	epoch := c.register(1, "a")
	c.beat(1, epoch)
	c.beat(1, epoch)
	c.propose(&ops.FenceBrokerRequest{BrokerID: 1})
	require.True(t, c.beat(1, epoch), "a broker that is fenced and alive is unfenced")
	c.propose(&ops.FenceBrokerRequest{BrokerID: 1})
	next := c.register(1, "b")
	answer, _, err := c.Heartbeat(t.Context(), &ops.BrokerHeartbeatRequest{BrokerID: 1, BrokerEpoch: epoch})
	require.NoError(t, err)
	require.Equal(t, ops.StaleBrokerEpoch, answer.Error)
	require.True(t, c.broker(1).Fenced)
	require.True(t, c.beat(1, next))
}

// A session is of one epoch: the silence of an earlier one does not count.
func TestSessionsOfEpochs(t *testing.T) {
	c := newCluster(t)
	c.Sessions.reset(map[int32]session{}) // as Run does, whose looks are the test's here
	epoch := c.register(1, "a")
	c.beat(1, epoch)
	c.propose(&ops.FenceBrokerRequest{BrokerID: 1})
	c.register(1, "b")
	c.propose(&ops.UnfenceBrokerRequest{BrokerID: 1})
	c.clock.Advance(2 * timeout)
	require.NoError(t, c.look(t.Context()))
	require.False(t, c.broker(1).Fenced)
	c.clock.Advance(2 * timeout)
	require.NoError(t, c.look(t.Context()))
	require.True(t, c.broker(1).Fenced)
}

// A broker that is silent past its session is fenced and loses leadership, and when it
// comes back it is not put into the ISR of a partition that it does not belong to.
func TestSilentBrokerIsFenced(t *testing.T) {
	c := newCluster(t)
	defer c.lead()()
	epochs := map[int32]int64{}
	for id := range int32(3) {
		epochs[id] = c.register(id, "a")
		c.beat(id, epochs[id])
	}
	topic := store.TopicID{15: 1}
	key := store.LogKey{Topic: topic}
	require.Equal(t, ops.None, c.propose(&ops.RegisterPartitionsRequest{TopicID: topic, TopicName: "t",
		Partitions: []ops.RegisterPartition{{Replicas: []int32{0, 1, 2}}}}).(*ops.RegisterPartitionsResponse).Error)
	require.EqualValues(t, 0, c.partition(key).Leader)
	for range 20 { // twice the timeout
		c.clock.Advance(timeout / 10)
		c.beat(1, epochs[1])
		c.beat(2, epochs[2])
	}
	require.Eventually(t, func() bool { return c.broker(0).Fenced }, time.Minute, time.Millisecond, "the silent one is fenced")
	require.False(t, c.broker(1).Fenced || c.broker(2).Fenced)
	r := c.partition(key)
	require.EqualValues(t, 1, r.Leader)
	require.Equal(t, []int32{1, 2}, r.ISR)
	require.Eventually(t, func() bool { return testutil.ToFloat64(c.metrics.expired) == 1 }, time.Minute, time.Millisecond, "counted once it is answered")

	require.True(t, c.beat(0, epochs[0]))
	r = c.partition(key)
	require.EqualValues(t, 1, r.Leader)
	require.Equal(t, []int32{1, 2}, r.ISR)
}

// Who begins to lead gives every broker a whole session.
func TestNewLeaderBeginsAnew(t *testing.T) {
	c := newCluster(t)
	stop := c.lead()
	epoch := c.register(1, "a")
	c.beat(1, epoch)
	c.clock.Advance(timeout - time.Second)
	stop()
	c.beat(1, epoch)
	require.Nil(t, c.brokers, "nothing is remembered by who does not lead")
	c.clock.Advance(timeout)
	defer c.lead()()
	require.Eventually(t, func() bool { return c.sessionOf(1).epoch == epoch }, time.Minute, time.Millisecond, "its session has begun")
	c.clock.Advance(timeout - time.Second)
	require.NoError(t, c.look(t.Context()))
	require.False(t, c.broker(1).Fenced)
	c.clock.Advance(2 * time.Second)
	require.NoError(t, c.look(t.Context()))
	require.True(t, c.broker(1).Fenced)
}

func (c *cluster) sessionOf(id int32) session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brokers[id]
}
