package raftnode

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// testLogStore is where the tests' nodes keep raft's entries.
var testLogStore = DefaultConfig().RaftLogStore

func init() { flag.StringVar(&testLogStore, "log.store", testLogStore, "raft.log.store of the nodes") }

// testConfig has timers short enough for a test and long enough for a busy
// machine.
func testConfig(t *testing.T, id string) Config {
	c := DefaultConfig()
	c.NodeID, c.DataDir, c.RaftAddr = id, filepath.Join(t.TempDir(), id), "127.0.0.1:0"
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	c.RaftLogStore = testLogStore
	c.CheckpointInterval = 0 // tests that count entries are many
	c.CommitTimeout, c.pollInterval = 10*time.Millisecond, 50*time.Millisecond
	if testing.Verbose() {
		c.Logger = slog.New(slog.NewTextHandler(testWriter{t}, nil)).With("node", id)
	}
	return c
}

// steady timers let the leader stay while the machine is busy, for tests that lose
// none.
func steady(c *Config) {
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 2*time.Second, 2*time.Second, 2*time.Second
}

// neverElects has timers that end after the test: who leads does not wait for them.
func neverElects(c *Config) { c.HeartbeatTimeout, c.ElectionTimeout = time.Hour, time.Hour }

// testWriter passes log lines on until the test ends: raft has goroutines that
// outlive it for a moment.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", p[:len(p)-1])
	}
	return len(p), nil
}

func openNode(t *testing.T, c Config) *Node {
	t.Helper()
	n, err := Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func eventually(t *testing.T, cond func() bool, what string, args ...any) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, 2*time.Millisecond, append([]any{what}, args...)...)
}

func ready(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, func() bool { return n.Ready() == nil }, "%s is ready: %v", n.config.NodeID, n.Ready())
}

// cluster is three nodes, or as many as ids; nodes are nil while they are down.
type cluster struct {
	t       *testing.T
	configs []Config
	nodes   []*Node
}

// newCluster prepares nodes and starts none.
func newCluster(t *testing.T, change func(*Config)) *cluster {
	c := &cluster{t: t, configs: make([]Config, 3), nodes: make([]*Node, 3)}
	var peers []Peer
	for i := range c.configs {
		c.configs[i] = testConfig(t, fmt.Sprintf("n%d", i+1))
		c.configs[i].RaftAddr = freeAddr(t)
		peers = append(peers, Peer{ID: c.configs[i].NodeID, Addr: c.configs[i].RaftAddr})
	}
	for i := range c.configs {
		c.configs[i].Peers = peers
		if change != nil {
			change(&c.configs[i])
		}
	}
	t.Cleanup(c.stopAll)
	return c
}

// startCluster starts all nodes and waits until they are ready.
func startCluster(t *testing.T, change func(*Config)) *cluster {
	t.Helper()
	c := newCluster(t, change)
	for i := range c.configs {
		c.start(i)
	}
	for _, n := range c.nodes {
		ready(t, n)
	}
	return c
}

func (c *cluster) start(i int) *Node {
	c.t.Helper()
	n, err := Open(c.configs[i])
	require.NoError(c.t, err)
	c.nodes[i] = n
	return n
}

func (c *cluster) stop(i int) {
	c.t.Helper()
	if n := c.nodes[i]; n != nil {
		c.nodes[i] = nil
		require.NoError(c.t, n.Close())
	}
}

func (c *cluster) stopAll() {
	var all sync.WaitGroup
	for i := range c.nodes {
		all.Go(func() { c.stop(i) })
	}
	all.Wait()
}

// leader waits for a node that leads and is ready.
func (c *cluster) leader() int {
	c.t.Helper()
	at := -1
	eventually(c.t, func() bool {
		for i, n := range c.nodes {
			if n != nil && n.leading() != nil {
				at = i
			}
		}
		return at >= 0
	}, "a leader")
	return at
}

func (c *cluster) followers() []int {
	c.t.Helper()
	leader, all := c.leader(), []int{}
	for i, n := range c.nodes {
		if n != nil && i != leader {
			all = append(all, i)
		}
	}
	return all
}

var testTopic = store.TopicID{15: 1}

// createTopic makes testTopic with partitions 0 to 3 on the leader.
func createTopic(t *testing.T, n *Node) Result {
	t.Helper()
	r, err := n.Propose(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: testTopic, TopicName: "t", NumPartitions: 4}}})
	require.NoError(t, err)
	return r
}

func commitOf(key string, partition int32) *ops.CommitFileRequest {
	return &ops.CommitFileRequest{ObjectKey: key, Format: 1, FileSize: 100, Batches: []ops.CommitBatch{{
		TopicID: testTopic, Partition: partition, Magic: 2, ByteSize: 100, LastOffset: 9,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
	}}}
}

func commit(ctx context.Context, n *Node, key string, partition int32) (Result, error) {
	return n.Propose(ctx, commitOf(key, partition))
}

func mustCommit(t *testing.T, n *Node, key string, partition int32) Result {
	t.Helper()
	r, err := commit(t.Context(), n, key, partition)
	require.NoError(t, err)
	require.Equal(t, ops.None, r.Answer.(*ops.CommitFileResponse).Batches[0].Error)
	return r
}

// highWatermark reads one partition of testTopic.
func highWatermark(ctx context.Context, n *Node, o ReadOptions, partition int32) (int64, ReadInfo, error) {
	var at int64
	info, err := n.View(ctx, o, func(tx *store.ReadTx) error {
		l, _, err := tx.LiveLog(store.LogKey{Topic: testTopic, Partition: partition})
		at = l.HighWatermark
		return err
	})
	return at, info, err
}

// meta is the head of a node's state.
func meta(t *testing.T, n *Node) store.Meta {
	t.Helper()
	flushed(t, n)
	var m store.Meta
	require.NoError(t, n.store.View(func(tx *store.ReadTx) error { m = tx.Meta(); return nil }))
	return m
}

// flushed makes what n has answered part of its state.
func flushed(t *testing.T, n *Node) {
	t.Helper()
	require.NoError(t, n.fsm.Flush())
}

// crash ends a node without any farewell: what it had in memory is gone.
func (c *cluster) crash(i int) {
	c.t.Helper()
	n := c.nodes[i]
	c.nodes[i] = nil
	n.closed.Do(func() { n.closeError = n.release() })
	require.NoError(c.t, n.closeError)
}

// settled waits until all running nodes hold the same state and the leader has
// applied all it has written. Entries whose proposers gave up may still arrive, so all
// are read again until they agree.
func (c *cluster) settled() store.Meta {
	c.t.Helper()
	var want store.Meta
	eventually(c.t, func() bool {
		leader := c.nodes[c.leader()]
		want = meta(c.t, leader)
		if leader.raft.AppliedIndex() != leader.raft.LastIndex() {
			return false
		}
		for _, n := range c.nodes {
			if n != nil && meta(c.t, n) != want {
				return false
			}
		}
		return true
	}, "all nodes hold the same state")
	return want
}

// block keeps a node's state machine from applying until the result is called.
func block(t *testing.T, n *Node) (release func()) {
	t.Helper()
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	errNothing := errors.New("nothing was changed")
	go func() {
		left <- n.store.Update(func(*store.WriteTx) error {
			close(entered)
			<-leave
			return errNothing
		})
	}()
	<-entered
	var once sync.Once
	release = func() {
		once.Do(func() {
			close(leave)
			require.ErrorIs(t, <-left, errNothing)
		})
	}
	t.Cleanup(release)
	return release
}

func requireCode(t *testing.T, err error, code ops.Code) {
	t.Helper()
	require.ErrorIs(t, err, &ops.Error{Code: code})
}

func removeFile(t *testing.T, c Config, name string) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(c.DataDir, name)))
}

// removeLog removes raft's log and promises.
func removeLog(t *testing.T, c Config) {
	t.Helper()
	removeFile(t, c, logFile)
	require.NoError(t, os.RemoveAll(walDir(filepath.Join(c.DataDir, logFile))))
}
