// Package cluster runs cpnode as its users do: real processes of the built binary,
// which can be killed, paused, started again with other flags, and ended.
//
// A node's methods are for one goroutine at a time; different nodes may be used
// concurrently.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/network"
	"github.com/cpnode/cpnode/ops"
)

const (
	// Patience is how long anything may take that is waited for.
	Patience = time.Minute
	// pollInterval is how often it is looked at.
	pollInterval = 20 * time.Millisecond
	// attemptTimeout is how long a node may take to say who leads.
	attemptTimeout = 700 * time.Millisecond
)

// Cluster is nodes on loopback that share a list of peers.
type Cluster struct {
	Nodes   []*Node
	Links   *network.Links // between them, nil unless Interpose made them
	dropped []*Node
	binary  string // of cpnode
	dir     string // holds a directory and a log file for each node
}

// New makes nodes with these ids under dir; none runs yet. Their --peers name all of
// them.
func New(binary, dir string, ids ...string) (*Cluster, error) {
	c := &Cluster{binary: binary, dir: dir}
	var peers []string
	for _, id := range ids {
		n, err := c.Add(id)
		if err != nil {
			return nil, err
		}
		peers = append(peers, id+"="+n.RaftAddr)
	}
	for _, n := range c.Nodes {
		n.Flags = []string{"--peers", strings.Join(peers, ",")}
	}
	return c, nil
}

// Add makes one more node, with addresses of its own; it does not run yet. Flags
// come after those that every node needs.
func (c *Cluster) Add(id string, flags ...string) (*Node, error) {
	dir := filepath.Join(c.dir, id)
	n := &Node{ID: id, Dir: dir, Log: dir + ".log", Flags: flags, Env: map[string]string{}, binary: c.binary}
	if err := n.Move(); err != nil {
		return nil, err
	}
	c.Nodes = append(c.Nodes, n)
	if c.Links != nil {
		return n, c.wire()
	}
	return n, nil
}

// Drop takes a node out of those that are started, waited for and stopped together.
// It is left as it is, until Close.
func (c *Cluster) Drop(n *Node) {
	c.Nodes = slices.DeleteFunc(c.Nodes, func(other *Node) bool { return other == n })
	c.dropped = append(c.dropped, n)
}

// Start starts what is down, and waits until all nodes are ready.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.AwaitReady(ctx)
}

// AwaitReady waits until all nodes are ready.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all nodes with SIGTERM, one after the other, and waits until they have
// closed their files.
func (c *Cluster) Stop() error {
	for _, n := range c.Nodes {
		if err := n.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// stopTries is how often StopAlike stops the nodes; each time again is rare.
const stopTries = 5

// StopAlike ends all nodes with the same entries applied, when nobody but their workers
// writes. The leader is the last to go: else the next one begins with its workers, and
// who stopped before has not applied what they do. What comes between all the same has
// the nodes started and stopped again.
func (c *Cluster) StopAlike(ctx context.Context) error {
	for range stopTries {
		if err := c.stopLeaderLast(ctx); err != nil {
			return err
		}
		if alike, err := c.alike(ctx); err != nil || alike {
			return err
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("stopped %d times, each time with entries that some nodes had applied and others not", stopTries)
}

func (c *Cluster) stopLeaderLast(ctx context.Context) error {
	if _, err := c.Settle(ctx); err != nil {
		return err
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if n != leader {
			err = errors.Join(err, n.Stop())
		}
	}
	return errors.Join(err, leader.Stop())
}

// alike says whether all nodes, which are down, have applied the same entries.
func (c *Cluster) alike(ctx context.Context) (bool, error) {
	at := map[uint64]bool{}
	for _, n := range c.Nodes {
		found, err := c.CheckState(ctx, n)
		if err != nil {
			return false, err
		}
		at[found.AppliedIndex] = true
	}
	return len(at) == 1, nil
}

// Close leaves no process behind. It may be called at any time, also twice.
func (c *Cluster) Close() {
	for _, n := range slices.Concat(c.Nodes, c.dropped) {
		n.Kill()
	}
	if c.Links != nil {
		c.Links.Close()
		c.Links = nil
	}
}

// Leader waits until a node leads, which a read that a majority confirmed says. Its error
// may be a node that has ended by itself.
func (c *Cluster) Leader(ctx context.Context) (leader *Node, err error) {
	return leader, Eventually(ctx, "a leader", func() (bool, error) {
		for _, n := range c.Nodes {
			if err := n.endedByItself(); err != nil {
				return false, err
			}
			info, err := n.Ask(ctx)
			if err == nil {
				leader = c.Node(info.Leader)
				return leader != nil, nil
			}
		}
		return false, nil
	})
}

// Release has every node run another binary from its next start on, which it takes from
// where it is.
func (c *Cluster) Release(binary string) error { return os.Rename(binary, c.binary) }

// Client asks all nodes, and goes on to the next when one does not answer.
func (c *Cluster) Client() (*api.Client, error) {
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	return api.NewClient(api.DefaultClientConfig(urls...))
}

// Node is the node of that id, nil when there is none.
func (c *Cluster) Node(id string) *Node {
	for _, n := range c.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Settle waits until all nodes have applied the same entries, and returns the index
// of the last one. It means something when nobody writes any more.
func (c *Cluster) Settle(ctx context.Context) (index uint64, err error) {
	return index, Eventually(ctx, "all nodes to apply the same entries", func() (bool, error) {
		// What a leader had begun before is done once it confirms a read.
		if _, err := c.Nodes[0].Ask(ctx); err != nil {
			return false, nil //nolint:nilerr // it is asked again
		}
		for i, n := range c.Nodes {
			info, err := n.Ask(ctx, api.Stale())
			if err != nil || i > 0 && info.AppliedIndex != index {
				return false, nil //nolint:nilerr // it is asked again
			}
			index = info.AppliedIndex
		}
		return true, nil
	})
}

// Ask is a small read of one node, for what its answer says about the cluster.
func (n *Node) Ask(ctx context.Context, opts ...api.Option) (info api.Info, err error) {
	if n.process == nil {
		return info, n.down()
	}
	config := api.DefaultClientConfig(n.URL())
	config.AttemptTimeout, config.RetryFor = attemptTimeout, 0
	client, err := api.NewClient(config)
	if err != nil {
		return info, err
	}
	defer client.Close()
	_, err = client.ListTopics(ctx, &ops.ListTopicsRequest{Limit: 1}, append(opts, api.Observe(&info))...)
	return info, err
}

// Eventually asks again and again until ok, an error, or Patience has passed.
func Eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("waited %s for %s", Patience, what))
	defer cancel()
	for {
		if done, err := ok(); err != nil || done {
			return err
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
