package api

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// propose carries out a write on the leader's node itself.
func (s *served) propose(t *testing.T, w ops.Write) any {
	t.Helper()
	result, err := s.node.Propose(t.Context(), w)
	require.NoError(t, err)
	return result.Answer
}

// registerBroker registers a broker and unfences it by its first heartbeat.
func (s *served) registerBroker(t *testing.T, id int32) (epoch int64) {
	t.Helper()
	registered := s.propose(t, &ops.RegisterBrokerRequest{BrokerID: id, IncarnationID: "a", CleanShutdown: true}).(*ops.RegisterBrokerResponse)
	require.Equal(t, ops.None, registered.Error)
	_, _, err := s.embedded.sessions.Heartbeat(t.Context(), &ops.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: registered.BrokerEpoch})
	require.NoError(t, err)
	return registered.BrokerEpoch
}

// state reads the state that the node has.
func (s *served) state(t *testing.T, fn func(*store.ReadTx) error) {
	t.Helper()
	_, err := s.node.View(t.Context(), raftnode.ReadOptions{Level: raftnode.Stale}, fn)
	require.NoError(t, err)
}

func (s *served) broker(t *testing.T, id int32) (b store.Broker) {
	t.Helper()
	s.state(t, func(tx *store.ReadTx) (err error) {
		b, _, err = tx.Broker(id)
		return err
	})
	return b
}

// Any node takes a heartbeat; the leader answers it.
func TestHeartbeatsAreForwarded(t *testing.T) {
	nodes := three(t, nil)
	epoch := nodes[0].registerBroker(t, 7)
	for _, s := range nodes {
		r := s.post(t, "broker-heartbeat", fmt.Sprintf(`{"broker_id":7,"broker_epoch":%d}`, epoch))
		require.Equal(t, http.StatusOK, r.status)
		require.JSONEq(t, `{"error":"NONE","fenced":false,"session_ms":9000}`, string(r.body))
	}
}

// A node that serves embeds the sessions: a broker that nobody hears is fenced.
func TestSilentBrokerIsFenced(t *testing.T) {
	s := single(t, func(c *raftnode.Config) { c.Settings.BrokerSessionMs = 100 })
	s.registerBroker(t, 7)
	eventually(t, "it is fenced", func() bool { return s.broker(t, 7).Fenced })
}

// ending is a context whose Err says after some calls that it has ended.
type ending struct {
	context.Context
	calls atomic.Int64
}

func (e *ending) Err() error {
	if e.calls.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A fence of a broker with 5,000 partitions that stopped half-way when the leader went
// is finished by the next one.
func TestFenceOutlivesItsLeader(t *testing.T) {
	const partitions = 5000
	nodes := three(t, func(c *raftnode.Config) {
		c.Settings.BrokerRows, c.Settings.BrokerSessionMs = 250, time.Hour.Milliseconds() // nobody is silent
	})
	for id := range int32(3) {
		nodes[0].registerBroker(t, id)
	}
	topic := store.TopicID{15: 1}
	register := &ops.RegisterPartitionsRequest{TopicID: topic, TopicName: "t"}
	for i := range int32(partitions) {
		register.Partitions = append(register.Partitions, ops.RegisterPartition{Partition: i, Replicas: []int32{0, 1, 2}})
	}
	require.Equal(t, ops.None, nodes[0].propose(t, register).(*ops.RegisterPartitionsResponse).Error)

	half := &ending{Context: t.Context()}
	half.calls.Store(10)
	_, err := nodes[0].node.Propose(half, &ops.FenceBrokerRequest{BrokerID: 0})
	requireCode(t, err, ops.OutcomeUnknown)
	b := nodes[0].broker(t, 0)
	require.True(t, b.Fenced)
	require.Equal(t, store.WalkFence, b.Walk.Kind)
	require.Positive(t, b.Walk.Next.Partition)
	require.NoError(t, nodes[0].node.Close())

	for _, s := range nodes[1:] {
		eventually(t, "the fence is finished", func() bool { b := s.broker(t, 0); return b.Fenced && b.Walk.Kind == store.WalkNone })
		count := 0
		s.state(t, func(tx *store.ReadTx) error {
			return tx.RegistrationsOfTopic(topic, func(_ store.LogKey, r *store.Registration) (bool, error) {
				count++
				require.EqualValues(t, 1, r.Leader)
				require.Equal(t, []int32{1, 2}, r.ISR)
				return true, nil
			})
		})
		require.Equal(t, partitions, count)
	}
}
