package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// cluster is nodes in this process, on real files and loopback sockets.
type cluster struct {
	dir     string
	configs []raftnode.Config
	nodes   []*raftnode.Node
	leader  *raftnode.Node
}

// newCluster starts nodes under a directory that it makes and removes. sync is
// their state.sync.
func newCluster(ctx context.Context, parent string, nodes int, sync string) (*cluster, error) {
	dir, err := os.MkdirTemp(parent, "cluster-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	if c.configs, err = clusterConfigs(dir, nodes); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	c.configure(func(config *raftnode.Config) { config.StateSync, config.Registerer = sync, prometheus.NewRegistry() })
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// configure changes the nodes' configurations, which counts from the next open on.
func (c *cluster) configure(change func(*raftnode.Config)) {
	for i := range c.configs {
		change(&c.configs[i])
	}
}

func clusterConfigs(dir string, nodes int) ([]raftnode.Config, error) {
	configs := make([]raftnode.Config, nodes)
	peers := make([]raftnode.Peer, nodes)
	for i := range peers {
		addr, err := loopback.FreeAddr()
		if err != nil {
			return nil, err
		}
		peers[i] = raftnode.Peer{ID: fmt.Sprintf("n%d", i+1), Addr: addr}
	}
	for i, p := range peers {
		c := raftnode.DefaultConfig()
		c.NodeID, c.DataDir, c.RaftAddr = p.ID, filepath.Join(dir, p.ID), p.Addr
		if nodes > 1 {
			c.Peers = peers
		}
		configs[i] = c
	}
	return configs, nil
}

// open starts the nodes and waits until all are ready.
func (c *cluster) open(ctx context.Context) error {
	if err := c.start(); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

// start starts the nodes.
func (c *cluster) start() error {
	c.nodes, c.leader = nil, nil
	for _, config := range c.configs {
		n, err := raftnode.Open(config)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

// awaitReady waits until all nodes are ready and one of them leads.
func (c *cluster) awaitReady(ctx context.Context) error {
	return poll(ctx, "a cluster that is ready", func() bool {
		c.leader = nil
		for i, n := range c.nodes {
			if n.Ready() != nil {
				return false
			}
			if n.LeaderID() == c.configs[i].NodeID {
				c.leader = n
			}
		}
		return c.leader != nil
	})
}

// close stops the nodes and keeps their files.
func (c *cluster) close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Close())
	}
	c.nodes = nil
	return errors.Join(errs...)
}

// remove stops the nodes and removes their files.
func (c *cluster) remove() error { return errors.Join(c.close(), os.RemoveAll(c.dir)) }

const (
	pollInterval = time.Millisecond
	pollTimeout  = time.Minute
)

// poll waits until cond holds.
func poll(ctx context.Context, what string, cond func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// write carries out w on the leader. R is the operation's response.
func write[R any](ctx context.Context, c *cluster, w ops.Write) (*R, error) {
	result, err := c.leader.Propose(ctx, w)
	if err != nil {
		return nil, err
	}
	return result.Answer.(*R), nil
}

// read asks the leader at the given level. R is the operation's response.
func read[R any](ctx context.Context, c *cluster, level raftnode.Level, q ops.Query) (*R, error) {
	var answer any
	_, err := c.leader.View(ctx, raftnode.ReadOptions{Level: level}, func(tx *store.ReadTx) (err error) {
		answer, err = q.Query(tx, ops.DefaultLimits())
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer.(*R), nil
}

// topic is where batches go.
type topic struct {
	id         store.TopicID
	partitions int
}

func (c *cluster) createTopic(ctx context.Context, partitions int) (topic, error) {
	t := topic{id: randomID(), partitions: partitions}
	answer, err := write[ops.CreateTopicsResponse](ctx, c, &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{
		TopicID: t.id, TopicName: "bench-" + t.id.String(), NumPartitions: int32(partitions), Config: map[string]string{},
	}}})
	if err != nil {
		return t, err
	}
	if code := answer.Topics[0].Error; code != ops.None {
		return t, fmt.Errorf("create a topic: %s", code)
	}
	return t, nil
}
