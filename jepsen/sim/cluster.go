package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// cluster is the nodes of one run.
type cluster struct {
	scenario *Scenario
	network  *network
	nodes    []*node
	peers    []raftnode.Peer
	objects  *objects
	began    time.Time
	verbose  bool
	living   sync.WaitGroup
	hopeless atomic.Bool // nobody need wait for an answer any more

	mu       sync.Mutex
	random   *rand.Rand // of the workers
	failures []string
	diary    []string
	faults   map[Kind]int // carried out
	skipped  map[Kind]int // their time was wrong
}

func newCluster(s *Scenario, dir string, verbose bool) *cluster {
	c := &cluster{
		scenario: s, network: newNetwork(s.Seed), began: time.Now(), verbose: verbose, objects: newObjects(),
		random: rand.New(rand.NewPCG(s.Seed, 2)), faults: map[Kind]int{}, skipped: map[Kind]int{},
	}
	for i := range s.Nodes {
		c.peers = append(c.peers, raftnode.Peer{ID: string(rune('a' + i)), Addr: fmt.Sprintf("127.0.0.%d:7400", i+1)})
	}
	for i, p := range c.peers {
		c.nodes = append(c.nodes, &node{
			cluster: c, peer: p, disk: newDisk(filepath.Join(dir, p.ID)), orders: make(chan order),
			random: rand.New(rand.NewPCG(s.Seed, uint64(1000+i))),
		})
	}
	return c
}

// start runs all nodes until ctx ends; living is who to wait for.
func (c *cluster) start(ctx context.Context) {
	for _, n := range c.nodes {
		c.living.Go(func() { n.live(ctx) })
	}
}

// fail notes what must not be.
func (c *cluster) fail(format string, args ...any) {
	c.mu.Lock()
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
	c.mu.Unlock()
	c.say(format, args...)
}

// maxDiary bounds the diary of one run.
const maxDiary = 2000

// say writes a line into the diary, for who reads of a failure.
func (c *cluster) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.diary) < maxDiary {
		c.diary = append(c.diary, fmt.Sprintf("%9.3fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...)))
	}
}

// chance draws from [0, 1).
func (c *cluster) chance() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

func (c *cluster) count(kind Kind, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done {
		c.faults[kind]++
	} else {
		c.skipped[kind]++
	}
}

// leader is the node that leads, nil when there is none or it cannot be told.
func (c *cluster) leader() *node {
	for _, n := range c.nodes {
		if p := n.running(); p != nil && p.node.Status().Role == "leader" && p.node.Ready() == nil {
			return n
		}
	}
	return nil
}

// look is how often a wait looks again.
const look = 100 * time.Millisecond

// await waits until cond is nil, for a while; its error is the last that cond gave.
func await(ctx context.Context, limit time.Duration, cond func() error) error {
	end := time.Now().Add(limit)
	for {
		err := cond()
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return errors.Join(err, ctx.Err())
		}
		pause(ctx, look)
	}
}

// allReady is nil when every node serves and one leads.
func (c *cluster) allReady() error {
	for _, n := range c.nodes {
		if err := n.ready(); err != nil {
			return err
		}
	}
	if c.leader() == nil {
		return errors.New("nobody leads")
	}
	return nil
}

// othersReady says whether all nodes but one serve.
func (c *cluster) othersReady(but *node) bool {
	for _, n := range c.nodes {
		if n != but && n.ready() != nil {
			return false
		}
	}
	return true
}

// settled is the index at which all nodes are, nil error when they are.
func (c *cluster) settled(ctx context.Context) (index uint64, err error) {
	for i, n := range c.nodes {
		m, err := n.head(ctx)
		if err != nil {
			return 0, err
		}
		if i > 0 && m.AppliedIndex != index {
			return 0, fmt.Errorf("node %s is at entry %d, node %s at %d", n.peer.ID, m.AppliedIndex, c.nodes[0].peer.ID, index)
		}
		index = m.AppliedIndex
	}
	return index, nil
}

// head is the head of a node's state, with all that it has answered when it leads.
func (n *node) head(ctx context.Context) (m store.Meta, err error) {
	p := n.running()
	if p == nil {
		return m, fmt.Errorf("node %s is down", n.peer.ID)
	}
	_, err = p.node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, func(tx *store.ReadTx) error {
		m = tx.Meta()
		return nil
	})
	return m, err
}
