package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
)

// cluster is three nodes on loopback, each a child process of this binary. They
// die with this process, whatever ends it.
type cluster struct {
	nodes []*child
	all   *api.Client // asks any of them, and again
}

// child is one node of a cluster. Its log is beside its directory.
type child struct {
	id, dir, url       string
	httpAddr, raftAddr string
	peers              string
	client             *api.Client // asks this node alone, once

	process *os.Process // nil while it is down
	exited  chan struct{}
	err     error // how it ended, once exited is closed
}

const (
	// attemptTimeout is how long one node may take to answer: less than the gap
	// that a killed leader leaves, so that writers go on to the next node.
	attemptTimeout = 2 * time.Second
	// clusterPatience is how long anything may take that the story waits for.
	clusterPatience = 30 * time.Second
	// pollInterval is how often it looks.
	pollInterval = 20 * time.Millisecond
)

// startCluster starts three nodes under dir and waits until all are ready.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c, err := newCluster(dir)
	if err != nil {
		return nil, err
	}
	return c, c.startAll(ctx)
}

// newCluster prepares three nodes under dir.
func newCluster(dir string) (*cluster, error) {
	c := &cluster{}
	var urls, peers []string
	for _, id := range []string{"a", "b", "c"} {
		n, err := newChild(id, dir)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
		urls, peers = append(urls, n.url), append(peers, id+"="+n.raftAddr)
	}
	for _, n := range c.nodes {
		n.peers = strings.Join(peers, ",")
	}
	var err error
	c.all, err = newClient(clusterPatience, urls...)
	return c, err
}

func newChild(id, dir string) (n *child, err error) {
	n = &child{id: id, dir: filepath.Join(dir, id)}
	if n.httpAddr, err = loopback.FreeAddr(); err != nil {
		return nil, err
	}
	if n.raftAddr, err = loopback.FreeAddr(); err != nil {
		return nil, err
	}
	n.url = "http://" + n.httpAddr
	n.client, err = newClient(0, n.url)
	return n, err
}

func newClient(retryFor time.Duration, urls ...string) (*api.Client, error) {
	config := api.DefaultClientConfig(urls...)
	config.AttemptTimeout, config.RetryFor = attemptTimeout, retryFor
	return api.NewClient(config)
}

// startAll starts what is down and waits until all are ready. After an error
// nothing runs.
func (c *cluster) startAll(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.start(); err != nil {
			c.kill()
			return err
		}
	}
	for _, n := range c.nodes {
		if err := n.awaitReady(ctx); err != nil {
			c.kill()
			return err
		}
	}
	return nil
}

// start starts the node unless it runs.
func (n *child) start() error {
	if n.process != nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return n.startBinary(self, "--topic.purger.interval.ms", "86400000") // whoever runs the cluster purges
}

// startBinary starts the node, which is down, with a build of cpnode and flags beside
// those that every node needs.
func (n *child) startBinary(binary string, flags ...string) error {
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	args := []string{"serve", "--node-id", n.id, "--data-dir", n.dir, "--http-addr", n.httpAddr, "--raft-addr", n.raftAddr, "--peers", n.peers}
	cmd := exec.Command(binary, append(args, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own, so that Ctrl-C reaches this process alone, which ends it.
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", n.id, err)
	}
	exited := make(chan struct{})
	n.process, n.exited, n.err = cmd.Process, exited, nil
	go func() {
		n.err = cmd.Wait()
		close(exited)
	}()
	return nil
}

func (n *child) logFile() string { return n.dir + ".log" }

// awaitReady waits until the node says that it is ready.
func (n *child) awaitReady(ctx context.Context) error {
	return eventually(ctx, "node "+n.id+" to be ready", func() (bool, error) {
		select {
		case <-n.exited:
			return false, fmt.Errorf("node %s ended: %w\n%s", n.id, n.err, lastLines(n.logFile()))
		default:
		}
		r, err := http.Get(n.url + "/readyz")
		if err != nil {
			return false, nil // it does not listen yet
		}
		return r.StatusCode == http.StatusOK, r.Body.Close()
	})
}

// lastLines is the end of a log, for an error that points at it.
func lastLines(path string) string {
	const keep = 2000
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-keep):])
}

// signal sends a signal to the node's process.
func (n *child) signal(s syscall.Signal) error { return n.process.Signal(s) }

// kill ends the node with SIGKILL, and waits until it is gone.
func (n *child) kill() {
	if n.process == nil {
		return
	}
	_ = n.process.Kill() // it may be gone already
	<-n.exited
	n.process = nil
}

func (c *cluster) kill() {
	for _, n := range c.nodes {
		n.kill()
	}
}

// stop ends all nodes with SIGTERM and waits until they have closed their files.
func (c *cluster) stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.signal(syscall.SIGTERM))
	}
	for _, n := range c.nodes {
		select {
		case <-n.exited:
			if n.err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w\n%s", n.id, n.err, lastLines(n.logFile())))
			}
			n.process = nil
		case <-time.After(clusterPatience):
			errs = append(errs, fmt.Errorf("node %s does not stop", n.id))
			n.kill()
		}
	}
	return errors.Join(errs...)
}

// leader is the node that leads, which a read that a majority confirmed says.
func (c *cluster) leader(ctx context.Context) (*child, error) {
	var info api.Info
	if _, err := c.all.ListTopics(ctx, &ops.ListTopicsRequest{Limit: 1}, api.Observe(&info)); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if n.id == info.Leader {
			return n, nil
		}
	}
	return nil, fmt.Errorf("node %q, which is said to lead, is none of this cluster", info.Leader)
}

// settle waits until all nodes have applied the same entries, and returns the index
// of the last one.
func (c *cluster) settle(ctx context.Context) (index uint64, err error) {
	return index, eventually(ctx, "all nodes to apply the same entries", func() (bool, error) {
		for i, n := range c.nodes {
			var info api.Info
			if _, err := n.client.ListTopics(ctx, &ops.ListTopicsRequest{Limit: 1}, api.Stale(), api.Observe(&info)); err != nil {
				return false, nil //nolint:nilerr // it is asked again
			}
			if i > 0 && info.AppliedIndex != index {
				return false, nil
			}
			index = info.AppliedIndex
		}
		return true, nil
	})
}

// eventually asks again and again until ok, an error, or clusterPatience has passed.
func eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	deadline := time.Now().Add(clusterPatience)
	for {
		done, err := ok()
		switch {
		case err != nil || done:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("waited %s for %s", clusterPatience, what)
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
