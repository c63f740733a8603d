package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
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

const commitBody = `{"object_key":"k","uploader_broker_id":1,"file_size":100,"batches":[]}`

func TestRefusedRequestsNameWhatIsWrong(t *testing.T) {
	s := single(t, nil)
	for name, c := range map[string]struct {
		operation, body, message string
	}{
		"empty body":        {"commit-file", ``, "body: is empty"},
		"not an object":     {"commit-file", `[]`, "body: must be an object"},
		"cut short":         {"commit-file", `{"object_key":"k"`, "ends too early"},
		"trailing data":     {"commit-file", commitBody + `{}`, "trailing data"},
		"null":              {"commit-file", strings.Replace(commitBody, `"k"`, `null`, 1), "object_key: must not be null"},
		"duplicate key":     {"commit-file", strings.Replace(commitBody, `{`, `{"file_size":1,`, 1), "file_size: duplicate key"},
		"unknown field":     {"commit-file", strings.Replace(commitBody, `{`, `{"fil_size":1,`, 1), "fil_size: unknown field (did you mean file_size?)"},
		"missing field":     {"commit-file", strings.Replace(commitBody, `"file_size":100,`, ``, 1), "file_size: is required"},
		"fraction":          {"commit-file", strings.Replace(commitBody, `100`, `1.5`, 1), "file_size: must be an integer"},
		"overflow":          {"commit-file", strings.Replace(commitBody, `100`, `9223372036854775808`, 1), "file_size: does not fit"},
		"empty object key":  {"commit-file", strings.Replace(commitBody, `"k"`, `""`, 1), "object_key:"},
		"misspelt cap":      {"purge-deleted-logs", `{"max_batch":1}`, "max_batch: unknown field (did you mean max_batches?)"},
		"negative cap":      {"purge-deleted-logs", `{"max_batches":-1}`, "max_batches: must be >= 0"},
		"negative in depth": {"get-log-info", `{"requests":[{"topic_id":"00000000-0000-0000-0000-000000000001","partition":-1}]}`, "requests[0].partition: must be >= 0"},
		"bad topic id":      {"delete-topics", `{"topic_ids":["x"]}`, "topic_ids[0]: must be a UUID"},
		"write with query":  {"commit-file?min_index=1", commitBody, `"min_index": a write takes no query parameters`},
		"unknown parameter": {"get-log-info?consistancy=stale", `{"requests":[]}`, `"consistancy": unknown query parameter`},
		"bad consistency":   {"get-log-info?consistency=strong", `{"requests":[]}`, "consistency: must be linearizable or stale"},
		"parameter twice":   {"get-log-info?consistency=stale&consistency=stale", `{"requests":[]}`, "consistency: is given twice"},
		"bad index":         {"get-log-info?consistency=stale&min_index=-1", `{"requests":[]}`, "min_index: must be an integer >= 0"},
		"index, not stale":  {"get-log-info?min_index=1", `{"requests":[]}`, "min_index: is for consistency=stale"},
		"age, not stale":    {"get-log-info?consistency=linearizable&max_staleness_ms=1", `{"requests":[]}`, "max_staleness_ms: is for consistency=stale"},
		"no age":            {"get-log-info?consistency=stale&max_staleness_ms=0", `{"requests":[]}`, "max_staleness_ms: must be an integer from 1"},
		"broken query":      {"get-log-info?%zz", `{"requests":[]}`, "query:"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.post(t, c.operation, c.body)
			r.requireCode(t, http.StatusBadRequest, ops.InvalidRequest, c.message)
		})
	}
}

func TestErrorsOfTheWay(t *testing.T) {
	s := single(t, func(c *raftnode.Config) {
		c.Settings.Limits.RequestBytes, c.Settings.Limits.Items, c.Settings.Limits.Batches = 4096, 3, 2
	})
	r := s.post(t, "commit-fil", `{}`)
	r.requireCode(t, http.StatusNotFound, ops.UnknownOperation, `"commit-fil"`)
	r = s.send(t, http.MethodGet, "/", nil)
	r.requireCode(t, http.StatusNotFound, ops.UnknownOperation, "/")

	r = s.send(t, http.MethodGet, "/v1/commit-file", nil)
	r.requireCode(t, http.StatusMethodNotAllowed, ops.MethodNotAllowed, "/v1/commit-file takes POST")
	require.Equal(t, "POST", r.header.Get("Allow"))
	r = s.send(t, http.MethodDelete, "/readyz", nil)
	r.requireCode(t, http.StatusMethodNotAllowed, ops.MethodNotAllowed, "")
	require.Equal(t, "GET, HEAD", r.header.Get("Allow"))

	for _, headers := range [][]string{
		{"Content-Type", "application/x-www-form-urlencoded"}, {"Content-Type", "application/json; charset=latin1"},
		{"Content-Type", "application/json", "Content-Encoding", "gzip"}, {"Accept", "text/html"}, {"Accept", "application/json;q=0"},
	} {
		r = s.send(t, http.MethodPost, "/v1/commit-file", []byte(commitBody), headers...)
		r.requireCode(t, http.StatusUnsupportedMediaType, ops.UnsupportedMediaType, "")
	}

	long := strings.Replace(commitBody, `"k"`, `"`+strings.Repeat("k", 5000)+`"`, 1)
	r = s.post(t, "commit-file", long)
	r.requireCode(t, http.StatusRequestEntityTooLarge, ops.RequestTooLarge, "body: more than 4096 bytes")
	r = s.sendChunked(t, "commit-file", long)
	r.requireCode(t, http.StatusRequestEntityTooLarge, ops.RequestTooLarge, "body: more than 4096 bytes")
	r = s.post(t, "delete-files", `{"object_keys":["1","2","3","4"]}`)
	r.requireCode(t, http.StatusRequestEntityTooLarge, ops.RequestTooLarge, "object_keys: more than 3 items")
	body, err := wire.Append(wire.JSON, nil, commitOf("k", 3))
	require.NoError(t, err)
	r = s.post(t, "commit-file", string(body))
	r.requireCode(t, http.StatusRequestEntityTooLarge, ops.RequestTooLarge, "batches: 3")
}

// sendChunked posts a body whose length is not announced.
func (s *served) sendChunked(t *testing.T, operation, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+operationPath+operation, io.MultiReader(strings.NewReader(body)))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, text}
}

func TestRefusedCommands(t *testing.T) {
	s := single(t, nil)
	_, err := s.embedded.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	_, err = s.embedded.CommitFile(t.Context(), commitOf("k", 1))
	require.NoError(t, err)
	body, err := wire.Append(wire.JSON, nil, commitOf("k", 2))
	require.NoError(t, err)
	r := s.post(t, "commit-file", string(body))
	r.requireCode(t, http.StatusConflict, ops.ObjectKeyConflict, "object_key")
	s.post(t, "is-safe-to-delete-file", `{"object_key":"f","fence":true}`)
	body, err = wire.Append(wire.JSON, nil, commitOf("f", 1))
	require.NoError(t, err)
	r = s.post(t, "commit-file", string(body))
	r.requireCode(t, http.StatusConflict, ops.ObjectKeyFenced, "object_key")
}

func TestAnswersSayWhoAndWhen(t *testing.T) {
	s := single(t, nil)
	r := s.post(t, "create-topics", `{"topics":[{"topic_id":"00000000-0000-0000-0000-000000000001","topic_name":"t","num_partitions":1}]}`)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.Equal(t, "n1", r.header.Get(headerLeader))
	require.Equal(t, "n1", r.header.Get(headerNode))
	require.Equal(t, fmt.Sprint(ops.FeatureLevel), r.header.Get(headerFeatureLevel))
	index := r.header.Get(headerIndex)
	require.NotEmpty(t, index)

	r = s.post(t, "list-topics?consistency=stale&max_staleness_ms=1000&min_index="+index, `{}`)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.Contains(t, string(r.body), `"topic_name":"t"`)
	require.Equal(t, index, r.header.Get(headerAppliedIndex))
	require.Equal(t, "0", r.header.Get(headerStaleness))
	require.Empty(t, r.header.Get(headerIndex))

	r = s.post(t, "delete-files", `{"object_keys":["none"]}`)
	require.Equal(t, http.StatusOK, r.status)
	require.Empty(t, r.header.Get(headerIndex), "nothing was proposed")
}

func TestStaleReadThatIsNotCaughtUp(t *testing.T) {
	s := single(t, func(c *raftnode.Config) { c.ReadTimeout = 20_000_000 })
	r := s.post(t, "list-topics?consistency=stale&min_index=1000000", `{}`)
	r.requireCode(t, http.StatusGatewayTimeout, ops.NotCaughtUp, "")
}

func TestBothFormats(t *testing.T) {
	s := single(t, nil)
	request := &ops.ListTopicsRequest{Limit: 1}
	for name, c := range map[string]struct {
		in     wire.Format
		accept string
		out    wire.Format
	}{
		"json":                {wire.JSON, "", wire.JSON},
		"msgpack":             {wire.Msgpack, "", wire.Msgpack},
		"json for msgpack":    {wire.Msgpack, "application/json", wire.JSON},
		"msgpack for json":    {wire.JSON, "application/msgpack", wire.Msgpack},
		"anything":            {wire.Msgpack, "*/*", wire.Msgpack},
		"any application":     {wire.JSON, "text/html, application/*;q=0.8", wire.JSON},
		"the first of equals": {wire.JSON, "application/msgpack, application/json", wire.Msgpack},
		"the one liked best":  {wire.JSON, "application/json;q=0.5, application/msgpack;q=0.9", wire.Msgpack},
		"the only one usable": {wire.Msgpack, "text/plain, application/json;q=0.1", wire.JSON},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := wire.Append(c.in, nil, request)
			require.NoError(t, err)
			headers := []string{"Content-Type", mediaTypes[c.in]}
			if c.accept != "" {
				headers = append(headers, "Accept", c.accept)
			}
			r := s.send(t, http.MethodPost, "/v1/list-topics", body, headers...)
			require.Equal(t, mediaTypes[c.out], r.header.Get("Content-Type"))
			require.NoError(t, wire.DecodeAnswer(c.out, r.body, &ops.ListTopicsResponse{}))

			r = s.send(t, http.MethodPost, "/v1/list-topics", []byte{0xc1}, headers...)
			e, ok := decodeError(c.out, r.body)
			require.True(t, ok)
			require.Equal(t, ops.InvalidRequest, e.Code)
		})
	}
}

func TestCleartextHTTP2(t *testing.T) {
	s := single(t, nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	resp, err := client.Post(s.url+"/v1/list-topics", "application/json", strings.NewReader(`{}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestHeadersAreBounded(t *testing.T) {
	s := single(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 2*maxHeaderBytes))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
}

func TestHugeLengthIsRefusedUnread(t *testing.T) {
	s := single(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/list-topics HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", int64(1)<<40)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}

func TestPages(t *testing.T) {
	s := single(t, nil)
	r := s.send(t, http.MethodGet, "/livez", nil)
	require.Equal(t, http.StatusOK, r.status)
	r = s.send(t, http.MethodGet, "/readyz", nil)
	require.Equal(t, "ok\n", string(r.body))
	r = s.send(t, http.MethodGet, "/version", nil)
	require.JSONEq(t, fmt.Sprintf(`{"version":"test","go":%q,"feature_level":%d,"node":"n1"}`, runtime.Version(), ops.FeatureLevel), string(r.body))
	r = s.send(t, http.MethodGet, "/openapi.json", nil)
	require.True(t, json.Valid(r.body))
	r = s.send(t, http.MethodHead, "/metrics", nil)
	require.Equal(t, http.StatusOK, r.status)

	require.NoError(t, s.node.Close())
	r = s.send(t, http.MethodGet, "/readyz", nil)
	require.Equal(t, http.StatusServiceUnavailable, r.status)
	require.Contains(t, string(r.body), "shutting down")
	r = s.send(t, http.MethodGet, "/readyz", nil, "Accept", "application/json")
	require.JSONEq(t, `{"ok":false,"reason":"SHUTTING_DOWN: this node is shutting down"}`, string(r.body))
	r = s.post(t, "list-topics", `{}`)
	r.requireCode(t, http.StatusServiceUnavailable, ops.ShuttingDown, "")
	require.Equal(t, "1", r.header.Get("Retry-After"))
}

func TestMetricsCountByOperationAndOutcome(t *testing.T) {
	s := single(t, nil)
	s.post(t, "list-topics", `{}`)
	s.post(t, "list-topics", `{"limit":-1}`)
	s.post(t, "nothing-like-it", `{}`)
	_, err := s.embedded.ListTopics(t.Context(), &ops.ListTopicsRequest{})
	require.NoError(t, err)
	requests := s.embedded.metrics.requests
	require.EqualValues(t, 2, testutil.ToFloat64(requests.WithLabelValues("list-topics", "OK")))
	require.EqualValues(t, 1, testutil.ToFloat64(requests.WithLabelValues("list-topics", "INVALID_REQUEST")))
	require.EqualValues(t, 1, testutil.ToFloat64(requests.WithLabelValues("unknown", "UNKNOWN_OPERATION")))
	successes := s.embedded.metrics.successes
	require.InDelta(t, time.Now().Unix(), testutil.ToFloat64(successes.WithLabelValues("list-topics")), 3600)
	require.Zero(t, testutil.ToFloat64(successes.WithLabelValues("commit-file")))
	r := s.send(t, http.MethodGet, "/metrics", nil)
	require.Contains(t, string(r.body), `cpnode_request_duration_seconds_count{operation="list-topics"} 3`)
	require.NotContains(t, string(r.body), "nothing-like-it")
}

// raisedNode is a real node whose cluster is at another level than its release.
type raisedNode struct{ *raftnode.Node }

func (raisedNode) FeatureLevel() uint64 { return 7 }

func TestFeatureLevelIsTheClusters(t *testing.T) {
	s := single(t, nil)
	s.registry = prometheus.NewRegistry()
	s.listen(t, raisedNode{s.node})
	require.Equal(t, "7", s.post(t, "list-topics", `{}`).header.Get(headerFeatureLevel))
}

// faultyNode is a real node that is made to fail.
type faultyNode struct {
	*raftnode.Node
	fault func() error
}

func (n *faultyNode) View(ctx context.Context, o raftnode.ReadOptions, fn func(*store.ReadTx) error) (raftnode.ReadInfo, error) {
	if err := n.fault(); err != nil {
		return raftnode.ReadInfo{}, err
	}
	return n.Node.View(ctx, o, fn)
}

// WhileLeading keeps no sessions on it: only what a request meets is to fail.
func (*faultyNode) WhileLeading(func(context.Context)) {}

func TestFaultsAreLoggedOnceAndNotTold(t *testing.T) {
	for name, fault := range map[string]func() error{
		"error": func() error { return fmt.Errorf("the secret cause") },
		"panic": func() error { panic("the secret cause") },
	} {
		t.Run(name, func(t *testing.T) {
			s := single(t, nil)
			s.registry = prometheus.NewRegistry()
			s.listen(t, &faultyNode{s.node, fault})
			r := s.post(t, "list-topics", `{}`)
			r.requireCode(t, http.StatusInternalServerError, ops.Internal, "its log says more")
			require.NotContains(t, string(r.body), "secret")
			require.Equal(t, 1, strings.Count(s.log.String(), "level=ERROR"), s.log.String())
			require.Contains(t, s.log.String(), "the secret cause")
		})
	}
}

func TestEveryErrorCodeHasItsStatus(t *testing.T) {
	for code, status := range map[ops.Code]int{
		ops.InvalidRequest: 400, ops.Unauthenticated: 401, ops.Unauthorized: 403, ops.UnknownOperation: 404, ops.MethodNotAllowed: 405,
		ops.ObjectKeyConflict: 409, ops.ObjectKeyFenced: 409, ops.RequestTooLarge: 413, ops.UnsupportedMediaType: 415, ops.Overloaded: 429,
		ops.Internal: 500, ops.UnsupportedFeatureLevel: 501, ops.NoLeader: 503, ops.ShuttingDown: 503, ops.StorageFull: 503, ops.NodeCorrupt: 503,
		ops.OutcomeUnknown: 504, ops.NotCaughtUp: 504, "A_CODE_OF_A_LATER_RELEASE": 500,
	} {
		require.Equal(t, status, Status(code), code)
	}
	require.Len(t, errorTable, 18)
}

func TestOverload(t *testing.T) {
	s := single(t, func(c *raftnode.Config) { c.MaxProposals = 1 })
	_, err := s.embedded.CreateTopics(t.Context(), newTopic(1))
	require.NoError(t, err)
	var refused reply
	eventually(t, "a commit is refused while another one is in flight", func() bool {
		replies := make(chan reply, 16)
		for i := range cap(replies) {
			body, err := wire.Append(wire.JSON, nil, commitOf(fmt.Sprintf("%p-%d", replies, i), 1))
			require.NoError(t, err)
			go func() { replies <- s.post(t, "commit-file", string(body)) }()
		}
		overloaded := false
		for range cap(replies) {
			if r := <-replies; r.status == http.StatusTooManyRequests {
				refused, overloaded = r, true
			}
		}
		return overloaded
	})
	refused.requireCode(t, http.StatusTooManyRequests, ops.Overloaded, "in flight")
	require.Equal(t, "1", refused.header.Get("Retry-After"))
}

// FuzzBodies sends bodies to every operation: whatever they hold, the answer is a
// response or an error object, and never a fault of the node.
func FuzzBodies(f *testing.F) {
	s := single(f, nil)
	server := NewServer(s.embedded, ServerConfig{})
	all := ops.All()
	for i, op := range all {
		if line, ok := readExamples()[op.Name]; ok {
			f.Add(i, false, []byte(line.Request))
			request := op.NewRequest()
			require.NoError(f, wire.Decode(wire.JSON, line.Request, request, wire.Limits{}))
			body, err := wire.Append(wire.Msgpack, nil, request)
			require.NoError(f, err)
			f.Add(i, true, body)
		}
	}
	f.Fuzz(func(t *testing.T, operation int, msgpack bool, body []byte) {
		op, format := all[uint(operation)%uint(len(all))], wire.JSON
		if msgpack {
			format = wire.Msgpack
		}
		r := record(server, op.Name, format, body)
		if r.status == http.StatusOK {
			require.NoError(t, wire.DecodeAnswer(format, r.body, op.NewResponse()))
			return
		}
		e, ok := decodeError(format, r.body)
		require.True(t, ok, "%d %q", r.status, r.body)
		require.Equal(t, r.status, Status(e.Code))
		require.NotEqual(t, ops.Internal, e.Code, s.log.String())
	})
}
