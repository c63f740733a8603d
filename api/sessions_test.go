package api

import (
	"fmt"
	"net/http"
	"testing"

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

func (s *served) broker(t *testing.T, id int32) (b store.Broker) {
	t.Helper()
	_, err := s.node.View(t.Context(), raftnode.ReadOptions{Level: raftnode.Stale}, func(tx *store.ReadTx) (err error) {
		b, _, err = tx.Broker(id)
		return err
	})
	require.NoError(t, err)
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
