package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
)

// cluster is three child processes of this binary on loopback.
type cluster struct {
	nodes []*process
	http  http.Client
	next  int
}

// process is one node; it dies with this process.
type process struct {
	id, dir, url       string
	httpAddr, raftAddr string
	cmd                *exec.Cmd
}

func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{http: http.Client{Timeout: 15 * time.Second}}
	for _, id := range []string{"a", "b", "c"} {
		httpAddr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		raftAddr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, &process{id: id, dir: filepath.Join(dir, id), url: "http://" + httpAddr, httpAddr: httpAddr, raftAddr: raftAddr})
	}
	if err := c.startAll(ctx); err != nil {
		c.kill()
		return nil, err
	}
	return c, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (c *cluster) peers() string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.id+"="+n.raftAddr)
	}
	return strings.Join(list, ",")
}

func (c *cluster) startAll(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.start(c.peers()); err != nil {
			return err
		}
	}
	return eventually(ctx, "all nodes to be ready", func() bool {
		for _, n := range c.nodes {
			r, err := c.http.Get(n.url + "/readyz")
			if err != nil {
				return false
			}
			r.Body.Close()
			if r.StatusCode != http.StatusOK {
				return false
			}
		}
		return true
	})
}

func (p *process) start(peers string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	p.cmd = exec.Command(self, "serve", "--node-id", p.id, "--data-dir", p.dir, "--http-addr", p.httpAddr, "--raft-addr", p.raftAddr, "--peers", peers)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Its own group, so that Ctrl-C reaches this process alone, which ends it.
	p.cmd.SysProcAttr = childAttributes()
	return p.cmd.Start()
}

// kill is SIGKILL.
func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
	p.cmd = nil
	return err
}

func (c *cluster) kill() {
	for _, n := range c.nodes {
		_ = n.kill() // it may be gone already
	}
}

// stop ends all nodes gracefully.
func (c *cluster) stop() {
	for _, n := range c.nodes {
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, n := range c.nodes {
		_ = n.cmd.Wait() // what it left behind is checked
		n.cmd = nil
	}
}

func (c *cluster) node(id string) *process {
	for _, n := range c.nodes {
		if n.id == id {
			return n
		}
	}
	return c.nodes[0]
}

// call asks one node; header is that of the answer.
func call[Response any](ctx context.Context, c *cluster, n *process, op, query string, request any) (*Response, http.Header, error) {
	body, err := wire.Append(wire.Msgpack, nil, request)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/v1/"+op+query, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/msgpack")
	r, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, r.Header, &ops.Error{Code: ops.Code(r.Status), Message: fmt.Sprintf("%s on node %s: %q", op, n.id, data)}
	}
	answer := new(Response)
	return answer, r.Header, wire.DecodeAnswer(wire.Msgpack, data, answer)
}

// retry asks node after node until one answers: every operation of the demo is
// safe to repeat.
func retry[Response any](ctx context.Context, c *cluster, op string, request any) (*Response, error) {
	var answer *Response
	var last error
	err := eventually(ctx, "an answer to "+op, func() bool {
		c.next++
		answer, _, last = call[Response](ctx, c, c.nodes[c.next%len(c.nodes)], op, "", request)
		return last == nil
	})
	return answer, errors.Join(err, last)
}

// leader is the id of the node that the first one to answer takes for the leader.
func (c *cluster) leader(ctx context.Context) string {
	for _, n := range c.nodes {
		_, h, err := call[ops.ListTopicsResponse](ctx, c, n, "list-topics", "?consistency=stale", &ops.ListTopicsRequest{Limit: 1})
		if err == nil && h.Get("X-Cpnode-Leader") != "" {
			return h.Get("X-Cpnode-Leader")
		}
	}
	return c.nodes[0].id
}

// settle waits until all nodes have applied the same.
func (c *cluster) settle(ctx context.Context) error {
	return eventually(ctx, "all nodes to apply the same index", func() bool {
		seen := map[string]bool{}
		for _, n := range c.nodes {
			_, h, err := call[ops.ListTopicsResponse](ctx, c, n, "list-topics", "?consistency=stale", &ops.ListTopicsRequest{Limit: 1})
			if err != nil {
				return false
			}
			seen[h.Get("X-Cpnode-Applied-Index")] = true
		}
		return len(seen) == 1
	})
}

func eventually(ctx context.Context, what string, ok func() bool) error {
	deadline := time.Now().Add(demoPatience)
	for !ok() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", demoPatience, what)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
