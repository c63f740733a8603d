package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// clock is a wall clock that a test sets.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// served is one node with everything before it, on loopback.
type served struct {
	config   raftnode.Config
	node     *raftnode.Node
	embedded *Embedded
	registry *prometheus.Registry
	url      string
	log      lockedBuffer
}

// lockedBuffer takes log lines from any goroutine.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func testConfig(t testing.TB, id string) raftnode.Config {
	c := raftnode.DefaultConfig()
	c.NodeID, c.DataDir, c.RaftAddr = id, filepath.Join(t.TempDir(), id), "127.0.0.1:0"
	c.CommitTimeout = 10 * time.Millisecond
	return c
}

// serve opens a node and serves it. The order of closing is the reverse.
func serve(t testing.TB, config raftnode.Config) *served {
	t.Helper()
	n, err := raftnode.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	s := &served{config: config, node: n, registry: prometheus.NewRegistry()}
	s.listen(t, n)
	return s
}

// listen serves node, which may be something around s.node.
func (s *served) listen(t testing.TB, node Node) {
	t.Helper()
	s.embedded = NewEmbedded(node, EmbeddedConfig{Limits: s.config.Settings.Limits, Registerer: s.registry,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil))})
	server := NewServer(s.embedded, ServerConfig{Version: "test", Gatherer: s.registry})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "http://" + l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown(context.Background()))
		require.NoError(t, <-done)
	})
}

func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := loopback.FreeAddr()
	require.NoError(t, err)
	return addr
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 20*time.Second, 2*time.Millisecond, what)
}

// single serves one ready node; change may be nil.
func single(t testing.TB, change func(*raftnode.Config)) *served {
	t.Helper()
	config := testConfig(t, "n1")
	if change != nil {
		change(&config)
	}
	s := serve(t, config)
	eventually(t, "the node is ready", func() bool { return s.node.Ready() == nil })
	return s
}

// three serves a cluster of three ready nodes, the leader first; change may be nil.
func three(t testing.TB, change func(*raftnode.Config)) []*served {
	t.Helper()
	configs := make([]raftnode.Config, 3)
	var peers []raftnode.Peer
	for i := range configs {
		configs[i] = testConfig(t, fmt.Sprintf("n%d", i+1))
		configs[i].RaftAddr = freeAddr(t)
		peers = append(peers, raftnode.Peer{ID: configs[i].NodeID, Addr: configs[i].RaftAddr})
	}
	nodes := make([]*served, 3)
	for i := range configs {
		configs[i].Peers = peers
		if change != nil {
			change(&configs[i])
		}
		nodes[i] = serve(t, configs[i])
	}
	for _, s := range nodes {
		eventually(t, "all nodes are ready", func() bool { return s.node.Ready() == nil })
	}
	leader := slices.IndexFunc(nodes, func(s *served) bool { return s.node.LeaderID() == s.config.NodeID })
	nodes[0], nodes[leader] = nodes[leader], nodes[0]
	return nodes
}

// reply is an answer over HTTP, read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send makes one request; headers are pairs.
func (s *served) send(t testing.TB, method, path string, body []byte, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, text}
}

func (s *served) post(t testing.TB, operation, body string) reply {
	t.Helper()
	return s.send(t, http.MethodPost, operationPath+operation, []byte(body))
}

// record passes a request to the handler without a connection.
func record(h http.Handler, operation string, f wire.Format, body []byte) reply {
	r := httptest.NewRequest(http.MethodPost, operationPath+operation, bytes.NewReader(body))
	r.Header.Set("Content-Type", mediaTypes[f])
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.Bytes()}
}

// code is the code and message of an error object in JSON.
func (r reply) code(t testing.TB) (ops.Code, string) {
	t.Helper()
	var object struct {
		Error struct {
			Code    ops.Code
			Message string
		}
	}
	require.NoError(t, json.Unmarshal(r.body, &object), "%s", r.body)
	return object.Error.Code, object.Error.Message
}

func (r reply) requireCode(t testing.TB, status int, code ops.Code, message string) {
	t.Helper()
	gotCode, gotMessage := r.code(t)
	require.Equal(t, code, gotCode, gotMessage)
	require.Equal(t, status, r.status)
	require.Contains(t, gotMessage, message)
}

func requireCode(t testing.TB, err error, code ops.Code) {
	t.Helper()
	require.ErrorIs(t, err, &ops.Error{Code: code})
}

// traceLine is one recorded operation with its right answer.
type traceLine struct {
	Op       string          `json:"op"`
	NowMs    int64           `json:"now_ms"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response,omitempty"`
	Error    *struct {
		Code ops.Code `json:"code"`
	} `json:"error,omitempty"`
}

func readTrace(t testing.TB, path string) []traceLine {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var lines []traceLine
	for text := range bytes.Lines(data) {
		var line traceLine
		require.NoError(t, json.Unmarshal(text, &line))
		lines = append(lines, line)
	}
	return lines
}

// canonical writes JSON with sorted keys and exact numbers.
func canonical(t testing.TB, text []byte) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value), "%s", text)
	out, err := json.Marshal(value)
	require.NoError(t, err)
	return string(out)
}

var testTopic = store.TopicID{15: 1}

func newTopic(partitions int32) *ops.CreateTopicsRequest {
	return &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: testTopic, TopicName: "t", NumPartitions: partitions}}}
}

// commitOf is a file of as many batches of ten records, on partitions 0, 1, ...
func commitOf(key string, batches int) *ops.CommitFileRequest {
	r := &ops.CommitFileRequest{ObjectKey: key, Format: 1, FileSize: int64(100 * batches)}
	for i := range batches {
		r.Batches = append(r.Batches, ops.CommitBatch{TopicID: testTopic, Partition: int32(i), Magic: 2,
			ByteOffset: int64(100 * i), ByteSize: 100, LastOffset: 9,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1})
	}
	return r
}
