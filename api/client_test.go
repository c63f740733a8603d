package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

func newClient(t testing.TB, config ClientConfig) *Client {
	t.Helper()
	c, err := NewClient(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// deadEndpoint is one where nobody listens.
func deadEndpoint(t testing.TB) string {
	t.Helper()
	return "http://" + freeAddr(t)
}

// lossy passes requests on to a node, and loses as many answers as losses says.
func lossy(t testing.TB, s *served, losses *atomic.Int64) string {
	t.Helper()
	target, err := url.Parse(s.url)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(*http.Response) error {
		if losses.Add(-1) >= 0 {
			return errors.New("lost")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

func TestClientConfigNamesTheField(t *testing.T) {
	for want, spoil := range map[string]func(*ClientConfig){
		"Endpoints":      func(c *ClientConfig) { c.Endpoints = []string{"localhost:1"} },
		"Endpoints: at":  func(c *ClientConfig) { c.Endpoints = nil },
		"AttemptTimeout": func(c *ClientConfig) { c.AttemptTimeout = 0 },
		"RetryFor":       func(c *ClientConfig) { c.RetryFor = -1 },
		"MaxAnswerBytes": func(c *ClientConfig) { c.MaxAnswerBytes = 0 },
	} {
		config := DefaultClientConfig("http://localhost:1")
		require.NoError(t, config.Validate())
		spoil(&config)
		_, err := NewClient(config)
		require.ErrorContains(t, err, want)
	}
}

func TestClientGoesOnToANodeThatAnswers(t *testing.T) {
	s := single(t, nil)
	c := newClient(t, DefaultClientConfig(deadEndpoint(t), s.url))
	_, err := c.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	require.Equal(t, 1, c.route.first(false), "and begins there the next time")
	_, err = c.ListTopics(t.Context(), &ops.ListTopicsRequest{}, Stale())
	require.NoError(t, err)
}

func TestClientLearnsWhoLeads(t *testing.T) {
	nodes := three(t, nil)
	c := newClient(t, DefaultClientConfig(nodes[1].url, nodes[2].url, nodes[0].url))
	for range 3 {
		_, err := c.ListTopics(t.Context(), &ops.ListTopicsRequest{})
		require.NoError(t, err)
	}
	forwarded := testutil.ToFloat64(nodes[0].embedded.metrics.served)
	require.LessOrEqual(t, forwarded, 2.0)
	_, err := c.ListTopics(t.Context(), &ops.ListTopicsRequest{})
	require.NoError(t, err)
	require.Equal(t, forwarded, testutil.ToFloat64(nodes[0].embedded.metrics.served), "asks the leader itself")
}

func TestClientOutlivesTheLeader(t *testing.T) {
	nodes := three(t, nil)
	c := newClient(t, DefaultClientConfig(nodes[0].url, nodes[1].url, nodes[2].url))
	_, err := c.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	require.NoError(t, nodes[0].node.Close())
	for _, key := range []string{"a", "b", "c"} {
		answer, err := c.CommitFile(t.Context(), commitOf(key, 1))
		require.NoError(t, err)
		require.Equal(t, ops.None, answer.Batches[0].Error)
	}
}

func TestRetriedCommitIsAnsweredAsTheFirstTime(t *testing.T) {
	s := single(t, nil)
	_, err := s.embedded.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	var losses atomic.Int64
	c := newClient(t, DefaultClientConfig(lossy(t, s, &losses)))
	losses.Store(2)
	answer, err := c.CommitFile(t.Context(), commitOf("k", 1))
	require.NoError(t, err)
	require.True(t, answer.Replayed)
	require.Zero(t, answer.Batches[0].AssignedBaseOffset)
}

func TestWritesThatMayDoMoreAreNotRepeated(t *testing.T) {
	s := single(t, nil)
	_, err := s.embedded.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	_, err = s.embedded.CommitFile(t.Context(), commitOf("k", 1))
	require.NoError(t, err)
	var losses atomic.Int64
	c := newClient(t, DefaultClientConfig(lossy(t, s, &losses)))
	losses.Store(1)
	_, err = c.DeleteRecords(t.Context(), &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: testTopic, Offset: -1}}})
	requireCode(t, err, ops.OutcomeUnknown)
	info, err := c.GetLogInfo(t.Context(), &ops.GetLogInfoRequest{Requests: []ops.LogRef{{TopicID: testTopic}}})
	require.NoError(t, err)
	require.EqualValues(t, 10, info.Responses[0].LogStartOffset, "it was carried out")
}

func TestLostAnswersOfReadsAreAskedForAgain(t *testing.T) {
	s := single(t, nil)
	var losses atomic.Int64
	c := newClient(t, DefaultClientConfig(lossy(t, s, &losses)))
	losses.Store(2)
	_, err := c.ListTopics(t.Context(), &ops.ListTopicsRequest{})
	require.NoError(t, err)
}

func TestUnknownOutcomeIsNotHiddenByALaterRefusal(t *testing.T) {
	s := single(t, nil)
	var losses atomic.Int64
	config := DefaultClientConfig(lossy(t, s, &losses), deadEndpoint(t))
	config.RetryFor = 200 * time.Millisecond
	c := newClient(t, config)
	losses.Store(1 << 30)
	_, err := c.CreateTopics(t.Context(), newTopic(1))
	requireCode(t, err, ops.OutcomeUnknown)
	require.NotErrorIs(t, err, &ops.Error{Code: ops.NoLeader})
}

// With a node that knows no leader and another that is down, the former says more.
func TestAnswerOfANodeIsNotHiddenByADeadEndpoint(t *testing.T) {
	leaderless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(headerNode, "n1")
		send(w, wire.JSON, failed(wire.JSON, nil, ops.Errorf(ops.NoLeader, "a majority is away")))
	}))
	defer leaderless.Close()
	for _, endpoints := range [][]string{{leaderless.URL, deadEndpoint(t)}, {deadEndpoint(t), leaderless.URL}} {
		config := DefaultClientConfig(endpoints...)
		config.RetryFor = time.Second
		_, err := newClient(t, config).ListTopics(t.Context(), &ops.ListTopicsRequest{})
		requireCode(t, err, ops.NoLeader)
		require.EqualError(t, err, "NO_LEADER: a majority is away", "whichever is asked last")
		require.NotErrorIs(t, err, ErrNoAnswer)
	}
	config := DefaultClientConfig(deadEndpoint(t))
	config.RetryFor = 0
	_, err := newClient(t, config).ListTopics(t.Context(), &ops.ListTopicsRequest{})
	requireCode(t, err, ops.NoLeader)
	require.ErrorIs(t, err, ErrNoAnswer)
}

func TestClientGivesUp(t *testing.T) {
	config := DefaultClientConfig(deadEndpoint(t))
	config.RetryFor = 50 * time.Millisecond
	c := newClient(t, config)
	_, err := c.CreateTopics(t.Context(), newTopic(1))
	requireCode(t, err, ops.NoLeader)

	config.RetryFor = time.Hour
	c = newClient(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.CreateTopics(ctx, newTopic(1))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAnswerOfAProxyTellsNothing(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<html>")
	}))
	defer proxy.Close()
	c := newClient(t, DefaultClientConfig(proxy.URL))
	_, err := c.DeleteRecords(t.Context(), &ops.DeleteRecordsRequest{})
	requireCode(t, err, ops.OutcomeUnknown)
	require.ErrorContains(t, err, "which is no node")
}

func TestClientBoundsAnswers(t *testing.T) {
	s := single(t, nil)
	_, err := s.embedded.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	config := DefaultClientConfig(s.url)
	config.MaxAnswerBytes, config.RetryFor = 20, 0
	_, err = newClient(t, config).ListTopics(t.Context(), &ops.ListTopicsRequest{})
	require.ErrorContains(t, err, "at most 20 are taken")

	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for w.(http.Flusher).Flush(); ; {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	config.Endpoints = []string{endless.URL}
	_, err = newClient(t, config).ListTopics(t.Context(), &ops.ListTopicsRequest{})
	require.ErrorContains(t, err, "more than 20 bytes")
}

func TestRouterKeepsAwayFromWhatFails(t *testing.T) {
	r := newRouter([]string{"a", "b", "c"})
	require.Equal(t, 0, r.first(false))
	r.learn(0, "n0", "n2")
	require.Equal(t, 2, r.first(false), "one of those that have not answered may be the leader")
	r.lost(2)
	require.Equal(t, 0, r.after(2, false))
	r.learn(0, "n0", "n2")
	require.Equal(t, 1, r.first(false))
	r.learn(1, "n1", "n2")
	require.Equal(t, 1, r.first(false), "nobody is left to ask: any node will do")
	r.learn(1, "n1", "n0")
	require.Equal(t, 0, r.first(false), "another leader")
	require.Equal(t, 1, r.after(0, true))
	require.Equal(t, 0, r.first(false), "a stale read moves nothing")
	r.learn(0, "n0", "n3")
	require.Equal(t, 2, r.first(false), "under a new leader a lost one may be asked again")
}
