package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// makeTopic makes the topic of a number and returns the index of its entry.
func makeTopic(t *testing.T, cp ControlPlane, i int) uint64 {
	t.Helper()
	index := createTopic(t, cp, i)
	require.Positive(t, index)
	return index
}

// createTopic is makeTopic where an attempt may be repeated: the index is 0 when an
// earlier one had made the topic.
func createTopic(t *testing.T, cp ControlPlane, i int) uint64 {
	t.Helper()
	var info Info
	answer, err := cp.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{
		{TopicID: store.TopicID{14: byte(i >> 8), 15: byte(i)}, TopicName: fmt.Sprint("t", i), NumPartitions: 1}}}, Observe(&info))
	if err != nil || answer.Topics[0].Error != ops.None {
		t.Errorf("create topic %d: %+v, %v", i, answer, err)
	}
	return info.Index
}

// openWatch begins a watch over HTTP; headers are pairs.
func (s *served) openWatch(t *testing.T, query string, headers ...string) *bufio.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+watchPath+query, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	return bufio.NewReader(resp.Body)
}

// nextBlock is the next event as it was sent, past comments.
func nextBlock(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	var block strings.Builder
	for {
		line, err := from.ReadString('\n')
		require.NoError(t, err)
		switch {
		case strings.HasPrefix(line, ":"):
		case line != "\n":
			block.WriteString(line)
		case block.Len() > 0:
			return block.String()
		}
	}
}

func TestWatchOverHTTP(t *testing.T) {
	s := single(t, nil)
	index := makeTopic(t, s.embedded, 1)
	stream := s.openWatch(t, "?from_index=0")
	const deleted = `"deleted_topics":["00000000-0000-0000-0000-000000000001"]`
	topic := func(i int) string {
		return fmt.Sprintf(`"topics":[{"topic_id":"00000000-0000-0000-0000-00000000000%d","topic_name":"t%d","origin":"diskless","partitions":1,"deleted_at":-1,"config":{}}]`, i, i)
	}
	change := func(index uint64, what string) string {
		return fmt.Sprintf("event: change\nid: %d\ndata: {\"index\":%d,%s}\n", index, index, what)
	}
	require.Equal(t, change(index, topic(1)), nextBlock(t, stream))
	second := makeTopic(t, s.embedded, 2)
	require.Equal(t, change(second, topic(2)), nextBlock(t, stream))
	var info Info
	_, err := s.embedded.DeleteTopics(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{{15: 1}}}, Observe(&info))
	require.NoError(t, err)
	require.Equal(t, change(info.Index, deleted), nextBlock(t, stream))

	later := s.openWatch(t, fmt.Sprint("?from_index=", index))
	require.Equal(t, change(second, topic(2)), nextBlock(t, later))
	again := s.openWatch(t, "?from_index=0", "Last-Event-ID", fmt.Sprint(second))
	require.Equal(t, change(info.Index, deleted), nextBlock(t, again))
}

func TestWatchRefusals(t *testing.T) {
	s := single(t, nil)
	for query, message := range map[string]string{
		"?from_index=-1": "from_index: must be an integer >= 0", "?from_index=x": "from_index: must be an integer >= 0",
		"?from_index=": "from_index: must be an integer >= 0", "?from_index=1&from_index=2": `"from_index": a watch takes one from_index`,
		"?from=1": `"from": a watch takes one from_index`,
	} {
		s.send(t, http.MethodGet, watchPath+query, nil).requireCode(t, http.StatusBadRequest, ops.InvalidRequest, message)
	}
	s.send(t, http.MethodGet, watchPath, nil, "Last-Event-ID", "x").requireCode(t, http.StatusBadRequest, ops.InvalidRequest, "Last-Event-ID: must be an integer >= 0")
	require.Equal(t, http.StatusMethodNotAllowed, s.send(t, http.MethodPost, watchPath, nil).status)
}

// A watch of changes that are not kept begins with a reset, which an id ends. How many
// are kept is what the leader is configured with.
func TestWatchReset(t *testing.T) {
	s := single(t, func(c *raftnode.Config) { c.Settings.EventHistory = 2 })
	eventually(t, "the state has the setting", func() (set bool) {
		_, err := s.node.View(t.Context(), raftnode.ReadOptions{Level: raftnode.Stale}, func(tx *store.ReadTx) error {
			set = tx.EventHistory() == 2
			return nil
		})
		return err == nil && set
	})
	var last uint64
	for i := range 9 {
		last = makeTopic(t, s.embedded, i+1)
	}
	stream := s.openWatch(t, "")
	require.Regexp(t, `^event: reset\ndata: {"index":\d+}\n$`, nextBlock(t, stream))
	rows := nextBlock(t, stream)
	require.Regexp(t, `^event: rows\ndata: `, rows)
	require.Equal(t, 9, strings.Count(rows, "topic_name"))
	require.Contains(t, nextBlock(t, stream), fmt.Sprintf("event: reset-end\nid: %d\n", last))
	next := makeTopic(t, s.embedded, 10)
	require.Contains(t, nextBlock(t, stream), fmt.Sprintf("event: change\nid: %d\n", next))
	require.Equal(t, 1.0, testutil.ToFloat64(s.embedded.watches.events.WithLabelValues(ops.WatchReset)))
}

// shortLived serves a node with answers whose time is far below that of a watch.
func shortLived(t *testing.T, s *served, heartbeat time.Duration) (url string, stop func()) {
	server := NewServer(s.embedded, ServerConfig{})
	server.heartbeat = heartbeat
	server.http.WriteTimeout = time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() {
		require.NoError(t, server.Shutdown(context.Background()))
		require.NoError(t, <-done)
	}
}

// The times of a connection do not end a watch: it says that it lives, until the server
// stops, which waits for it.
func TestWatchOutlivesTimeouts(t *testing.T) {
	s := single(t, nil)
	for name, protocols := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/2": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			url, stop := shortLived(t, s, 100*time.Millisecond)
			var p http.Protocols
			protocols(&p)
			transport := &http.Transport{Protocols: &p}
			defer transport.CloseIdleConnections()
			resp, err := (&http.Client{Transport: transport}).Get(url + watchPath)
			require.NoError(t, err)
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for range 2 * 13 { // comments and empty lines, over 1.2 s
				_, err := lines.ReadString('\n')
				require.NoError(t, err)
			}
			stop()
			_, err = io.Copy(io.Discard, lines)
			require.NoError(t, err, "it ends, and is not cut off")
		})
	}
	require.Zero(t, testutil.ToFloat64(s.embedded.watches.subscribers))
}

// stuckWriter is the connection of a client that reads nothing until it is let go.
type stuckWriter struct {
	header http.Header
	mu     sync.Mutex
	sent   strings.Builder
	stuck  chan struct{} // closed when it is being waited for
	let    chan struct{}
}

func (w *stuckWriter) Header() http.Header              { return w.header }
func (w *stuckWriter) WriteHeader(int)                  {}
func (w *stuckWriter) Flush()                           {}
func (w *stuckWriter) SetWriteDeadline(time.Time) error { return nil }

func (w *stuckWriter) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "event") {
		w.mu.Lock()
		if w.stuck != nil {
			close(w.stuck)
			w.stuck = nil
		}
		w.mu.Unlock()
		<-w.let
	}
	return w.sent.Write(b)
}

// A client that is too far behind what came since it connected is closed; what it has
// got is in order, so that it can go on.
func TestWatchClosesClientsThatAreBehind(t *testing.T) {
	s := single(t, nil)
	first := makeTopic(t, s.embedded, 1)
	server := NewServer(s.embedded, ServerConfig{})
	server.maxBehind = 5
	stuck := make(chan struct{})
	w := &stuckWriter{header: http.Header{}, stuck: stuck, let: make(chan struct{})}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, watchPath, nil)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.ServeHTTP(w, r)
	}()
	<-stuck
	for i := range 6 {
		makeTopic(t, s.embedded, i+2)
	}
	_, err = s.embedded.ListTopics(t.Context(), &ops.ListTopicsRequest{}) // the state holds them
	require.NoError(t, err)
	close(w.let)
	<-done
	require.Contains(t, w.sent.String(), fmt.Sprintf("id: %d\n", first))
	require.True(t, strings.HasSuffix(w.sent.String(), ": closed: 6 events behind\n\n"), w.sent.String())
	require.Equal(t, 1.0, testutil.ToFloat64(s.embedded.watches.closed))
}

// Embedded.Watch ends with its consumer, its context and its node.
func TestWatchEnds(t *testing.T) {
	s := single(t, nil)
	makeTopic(t, s.embedded, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for event, err := range s.embedded.Watch(ctx, 0) {
		if event.Kind == ops.WatchChange {
			cancel()
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	for range s.embedded.Watch(t.Context(), 0) {
		break
	}
	ended := make(chan error, 1)
	go func() {
		var last error
		for _, err := range s.embedded.Watch(context.Background(), 0) {
			last = err
		}
		ended <- last // it is counted out by now
	}()
	eventually(t, "it watches", func() bool { return testutil.ToFloat64(s.embedded.watches.subscribers) == 1 })
	require.NoError(t, s.node.Close())
	requireCode(t, <-ended, ops.ShuttingDown)
	require.Zero(t, testutil.ToFloat64(s.embedded.watches.subscribers))
}

// seen collects what a watch shows until it shows a topic.
func seen(t *testing.T, events iter.Seq2[ops.WatchEvent, error], until string) <-chan []ops.WatchEvent {
	out := make(chan []ops.WatchEvent, 1)
	go func() {
		var all []ops.WatchEvent
		for event, err := range events {
			if err != nil {
				t.Errorf("watch: %v", err)
				break
			}
			all = append(all, event)
			if slices.ContainsFunc(event.Topics, func(topic ops.TopicInfo) bool { return topic.TopicName == until }) {
				break
			}
		}
		out <- all
	}()
	return out
}

// Over 1,000 changes, two changes of the leader and compactions of the log, watchers in
// the process of each node and over HTTP see each change once and in order.
func TestWatchOverLeaderChanges(t *testing.T) {
	nodes := three(t, func(c *raftnode.Config) {
		c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = 64, 64, 50*time.Millisecond
		c.Registerer = prometheus.NewRegistry()
	})
	client := newClient(t, DefaultClientConfig(nodes[2].url, nodes[1].url, nodes[0].url))
	const changes = 1000
	last := fmt.Sprint("t", changes+1)
	results := []<-chan []ops.WatchEvent{seen(t, client.Watch(t.Context(), 0), last)}
	for _, s := range nodes {
		results = append(results, seen(t, s.embedded.Watch(t.Context(), 0), last))
	}
	for quarter := range 4 {
		var writers sync.WaitGroup
		for i := range 8 {
			writers.Go(func() {
				for topic := quarter*changes/4 + i; topic < (quarter+1)*changes/4; topic += 8 {
					createTopic(t, client, topic+1)
				}
			})
		}
		if quarter == 1 || quarter == 2 {
			_, err := client.ClusterTransfer(t.Context(), &ClusterTransferRequest{})
			require.NoError(t, err)
		}
		writers.Wait()
	}
	createTopic(t, client, changes+1)
	for i, result := range results {
		requireOnce(t, <-result, changes+1, i)
	}
	for _, s := range nodes {
		eventually(t, "its log was compacted", func() bool { return s.snapshots(t) > 0 })
	}
}

// snapshots is how many the node has taken.
func (s *served) snapshots(t *testing.T) (count uint64) {
	t.Helper()
	families, err := s.config.Registerer.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "cpnode_snapshot_duration_seconds" {
			count = family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return count
}

// requireOnce wants changes of one topic each, all of them once, in the order of the log.
func requireOnce(t *testing.T, events []ops.WatchEvent, topics, watcher int) {
	t.Helper()
	seen := map[string]bool{}
	index := int64(0)
	for _, event := range events {
		require.Equal(t, ops.WatchChange, event.Kind)
		require.Greater(t, event.Index, index, "watcher %d", watcher)
		index = event.Index
		require.Len(t, event.Topics, 1)
		require.False(t, seen[event.Topics[0].TopicName], "watcher %d: %s comes twice", watcher, event.Topics[0].TopicName)
		seen[event.Topics[0].TopicName] = true
	}
	require.Len(t, seen, topics, "watcher %d", watcher)
}

// The client goes on at another node when one stops, and begins a reset anew that was
// cut short.
// An event that no node sends in a way that can be read ends a watch; one that was cut is
// asked for again.
func TestClientWatchOfGarbledEvents(t *testing.T) {
	requests := 0
	scripted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 2 {
			_, _ = io.WriteString(w, "event: change\nid: 5\ndata: {\"index\":5}\n\n")
			return
		}
		_, _ = io.WriteString(w, "event: change\nid: 6\ndata: {\"ind\n\n")
	}))
	t.Cleanup(scripted.Close)
	client := newClient(t, DefaultClientConfig(scripted.URL))
	var indexes []int64
	var ended error
	for event, err := range client.Watch(t.Context(), 3) {
		if ended = err; err == nil {
			indexes = append(indexes, int64(event.Index))
		}
	}
	require.ErrorIs(t, ended, errGarbled)
	require.Equal(t, []int64{5}, indexes)
	require.Equal(t, 2+mostGarbled, requests)
}

func TestClientWatchGoesOn(t *testing.T) {
	var requests []string
	var mu sync.Mutex
	answers := []string{
		"event: change\nid: 5\ndata: {\"index\":5}\n\n",
		": \n\nevent: reset\ndata: {\"index\":7}\n\nevent: rows\ndata: {\"index\":9}\n\n",
		"event: reset\ndata: {\"index\":7}\n\nevent: rows\ndata: {\"index\":9}\n\nevent: reset-end\nid: 9\ndata: {\"index\":9}\n\n",
		"event: change\nid: 10\ndata: {\"index\":10}\n\n",
	}
	scripted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if len(requests) == len(answers) {
			send(w, wire.JSON, failed(wire.JSON, nil, ops.Errorf(ops.Unauthorized, "enough")))
			return
		}
		_, _ = io.WriteString(w, answers[len(requests)])
		requests = append(requests, r.URL.RequestURI())
	}))
	t.Cleanup(scripted.Close)
	client := newClient(t, DefaultClientConfig(deadEndpoint(t), scripted.URL))
	var kinds []string
	for event, err := range client.Watch(t.Context(), 3) {
		if err != nil {
			requireCode(t, err, ops.Unauthorized)
			break
		}
		kinds = append(kinds, fmt.Sprint(event.Kind, event.Index))
	}
	require.Equal(t, []string{"change5", "reset7", "rows9", "reset7", "rows9", "reset-end9", "change10"}, kinds)
	require.Equal(t, []string{"/v1/watch?from_index=3", "/v1/watch?from_index=5", "/v1/watch?from_index=5", "/v1/watch?from_index=9"}, requests)
}
