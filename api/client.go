package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// ClientConfig says how to reach a cluster. Endpoints is all that it needs.
type ClientConfig struct {
	// Endpoints are the URLs of nodes, http://host:port. Any node answers any
	// call; stale reads go to the first that answers.
	Endpoints []string
	// Format of bodies; the zero value is JSON, [DefaultClientConfig] msgpack.
	Format wire.Format
	// AttemptTimeout bounds the wait for one node's answer. It should exceed the
	// 10 s that a node waits for an outcome.
	AttemptTimeout time.Duration
	// RetryFor is how long after its begin a call may begin another attempt. The
	// call's context bounds all of it.
	RetryFor time.Duration
	// MaxAnswerBytes bounds an answer's body.
	MaxAnswerBytes int64
	// HTTP makes the requests; nil is a client of its own with enough idle
	// connections for many concurrent calls.
	HTTP *http.Client
}

// DefaultClientConfig is a client of these endpoints.
func DefaultClientConfig(endpoints ...string) ClientConfig {
	return ClientConfig{
		Endpoints: endpoints, Format: wire.Msgpack,
		AttemptTimeout: 15 * time.Second, RetryFor: 30 * time.Second, MaxAnswerBytes: 128 << 20,
	}
}

// Validate names the first field that is wrong.
func (c *ClientConfig) Validate() error {
	if len(c.Endpoints) == 0 {
		return errors.New("Endpoints: at least one must be given")
	}
	for _, endpoint := range c.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("Endpoints: %q is not http://host:port", endpoint)
		}
	}
	switch {
	case c.AttemptTimeout <= 0:
		return errors.New("AttemptTimeout: must be positive")
	case c.RetryFor < 0:
		return errors.New("RetryFor: must not be negative")
	case c.MaxAnswerBytes <= 0:
		return errors.New("MaxAnswerBytes: must be positive")
	}
	return nil
}

// Client is the control plane over HTTP. It may be used from any goroutine. It
// tries again what is safe to try again, on one node after the other, and learns
// which of them leads, which saves the hop from a follower.
type Client struct {
	Operations
	config ClientConfig
	http   *http.Client
	route  *router
}

var _ ControlPlane = (*Client)(nil)

const (
	// maxIdleConns is how many concurrent calls to one node find a connection.
	maxIdleConns = 256
	// dialTimeout is how long a node that does not even refuse holds up a call.
	dialTimeout = 2 * time.Second
)

// NewClient reaches the cluster at the endpoints. It connects when it is first
// called.
func NewClient(config ClientConfig) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	c := &Client{config: config, http: config.HTTP, route: newRouter(config.Endpoints)}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, maxIdleConns
		transport.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
		c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	c.Operations = Operations{c}
	return c, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one call, with its request encoded once for all attempts.
type call struct {
	verb  *verb
	query string
	stale bool
	body  []byte
}

// do carries out one call, in as many attempts as it takes and is safe.
func (c *Client) do(ctx context.Context, name string, req ops.Request, opts []Option) (any, error) {
	v := verbs[name]
	o, err := optionsOf(v, opts)
	if err != nil {
		return nil, err
	}
	cl := call{verb: v, query: queryOf(o.read), stale: o.read.Level == raftnode.Stale}
	if cl.body, err = wire.Append(c.config.Format, nil, req); err != nil {
		return nil, refusedField(err)
	}
	r := retries{client: c, call: &cl, began: time.Now()}
	answer, info, err := r.run(ctx)
	if o.info != nil {
		*o.info = info
	}
	return answer, err
}

// attempt asks one node once.
func (c *Client) attempt(ctx context.Context, endpoint int, cl *call) (any, Info, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.AttemptTimeout)
	defer cancel()
	req, err := c.request(ctx, endpoint, cl)
	if err != nil {
		return nil, Info{}, ops.Errorf(ops.Internal, "%v", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.route.lost(endpoint)
		return nil, Info{}, transportError(cl, err)
	}
	defer resp.Body.Close()
	body, err := c.readBody(resp)
	if err != nil {
		return nil, Info{}, unansweredError(cl, err)
	}
	c.route.learn(endpoint, resp.Header.Get(headerNode), resp.Header.Get(headerLeader))
	return c.answer(cl, resp, body)
}

func (c *Client) request(ctx context.Context, endpoint int, cl *call) (*http.Request, error) {
	target := strings.TrimRight(c.config.Endpoints[endpoint], "/") + operationPath + cl.verb.name
	if cl.query != "" {
		target += "?" + cl.query
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(cl.body))
	if err != nil {
		return nil, err
	}
	mediaType := mediaTypes[c.config.Format]
	req.Header["Content-Type"], req.Header["Accept"] = []string{mediaType}, []string{mediaType}
	return req, nil
}

func (c *Client) readBody(resp *http.Response) ([]byte, error) {
	var body bytes.Buffer
	if resp.ContentLength > c.config.MaxAnswerBytes {
		return nil, fmt.Errorf("an answer of %d bytes, at most %d are taken", resp.ContentLength, c.config.MaxAnswerBytes)
	}
	body.Grow(int(max(resp.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, c.config.MaxAnswerBytes+1)); err != nil {
		return nil, err
	}
	if int64(body.Len()) > c.config.MaxAnswerBytes {
		return nil, fmt.Errorf("an answer of more than %d bytes", c.config.MaxAnswerBytes)
	}
	return body.Bytes(), nil
}

// answer is what a node's answer says. An answer that is not a node's, such as a
// proxy's, says nothing about what was done.
func (c *Client) answer(cl *call, resp *http.Response, body []byte) (any, Info, error) {
	format, ok := formatOf(resp.Header.Get("Content-Type"))
	if !ok || resp.Header.Get(headerNode) == "" {
		return nil, Info{}, unansweredError(cl, fmt.Errorf("status %d from %s, which is no node", resp.StatusCode, resp.Request.URL.Host))
	}
	answer, err := decodeAnswer(cl.verb, format, resp.StatusCode != http.StatusOK, body)
	return answer, infoOf(resp.Header), err
}

// infoOf reads what the headers say; what is missing or makes no sense is zero.
func infoOf(h http.Header) Info {
	info := Info{Leader: h.Get(headerLeader)}
	info.Index, _ = strconv.ParseUint(h.Get(headerIndex), 10, 64)
	info.AppliedIndex, _ = strconv.ParseUint(h.Get(headerAppliedIndex), 10, 64)
	ms, _ := strconv.ParseInt(h.Get(headerStaleness), 10, 64)
	if info.Staleness = time.Duration(ms) * time.Millisecond; ms < 0 {
		info.Staleness = raftnode.Unknown
	}
	return info
}
