package raftnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// writers commit objects under keys of their own to whoever leads until the
// context ends, and remember what was acknowledged.
type writers struct {
	c     *cluster
	count int

	nodes sync.RWMutex // held to read c.nodes while the test changes them
	mu    sync.Mutex
	acked map[string]int64 // object key -> offset
	last  time.Time        // of the latest acknowledgement
	gap   time.Duration    // the longest time between two
}

func (w *writers) run(ctx context.Context) {
	var all sync.WaitGroup
	for id := range w.count {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.one(ctx, fmt.Sprintf("w%d-%d", id, i), int32(id%4))
			}
		})
	}
	all.Wait()
}

// one tries a key until it is acknowledged: a retry is answered like the first.
func (w *writers) one(ctx context.Context, key string, partition int32) {
	for ctx.Err() == nil {
		n := w.leader()
		if n == nil {
			continue
		}
		r, err := commit(ctx, n, key, partition)
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.acked[key] = r.Answer.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset
		w.gap = max(w.gap, time.Since(w.last))
		w.last = time.Now()
		w.mu.Unlock()
		return
	}
}

func (w *writers) leader() *Node {
	w.nodes.RLock()
	defer w.nodes.RUnlock()
	for _, n := range w.c.nodes {
		if n != nil && n.leading() != nil {
			return n
		}
	}
	time.Sleep(time.Millisecond)
	return nil
}

func (w *writers) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

func (w *writers) longestGap() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gap
}

// more waits for further acknowledgements.
func (w *writers) more(n int) {
	want := w.acknowledged() + n
	eventually(w.c.t, func() bool { return w.acknowledged() >= want }, "%d acknowledged", want)
}

func TestLeadersComeAndGoAndNothingAcknowledgedIsLost(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	w := &writers{c: c, count: 8, acked: map[string]int64{}, last: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx) })
	eventually(t, func() bool { return w.acknowledged() > 20 }, "writes go on")
	for round, end := range []func(int){c.crash, c.stop, c.crash} {
		at := c.leader()
		w.nodes.Lock()
		end(at)
		w.nodes.Unlock()
		w.more(50)
		w.nodes.Lock()
		c.start(at)
		w.nodes.Unlock()
		ready(t, c.nodes[at])
		w.more(50)
		t.Logf("round %d: longest gap so far %s", round, w.longestGap())
	}
	cancel()
	running.Wait()

	for key, offset := range w.acked {
		var id int
		_, err := fmt.Sscanf(key, "w%d-", &id)
		require.NoError(t, err)
		var r Result
		eventually(t, func() bool { // they are many, and the leader may change
			r, err = commit(t.Context(), c.nodes[c.leader()], key, int32(id%4))
			return err == nil
		}, "%s is answered", key)
		require.True(t, r.Answer.(*ops.CommitFileResponse).Replayed)
		require.Equal(t, offset, r.Answer.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset)
	}
	c.settled()
}

func TestRestartKeepsTheState(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	for i := range 30 {
		mustCommit(t, c.nodes[c.leader()], fmt.Sprint(i), int32(i%4))
	}
	before := c.settled()
	c.stopAll()
	for i := range c.configs {
		n := c.start(i)
		require.Equal(t, before, meta(t, n), "as it was, before the log is read")
	}
	for _, n := range c.nodes {
		ready(t, n)
	}
	require.Equal(t, before, c.settled())
	mustCommit(t, c.nodes[c.leader()], "after", 0)
}

func TestLaggingFollowerGetsASnapshot(t *testing.T) {
	c := startCluster(t, func(c *Config) {
		steady(c)
		c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 5, 20, 20*time.Millisecond
	})
	createTopic(t, c.nodes[c.leader()])
	away := c.followers()[0]
	c.stop(away)
	leader := c.nodes[c.leader()]
	for i := range 100 {
		mustCommit(t, leader, fmt.Sprint(i), int32(i%4))
	}
	eventually(t, func() bool {
		first, err := leader.log.FirstIndex()
		return err == nil && first > 50
	}, "the log is cut")
	n := c.start(away)
	ready(t, n)
	c.settled()
	newest, err := newestSnapshot(n.log.snapshots)
	require.NoError(t, err)
	require.Greater(t, newest.Index, uint64(50))

	// It lives on, and starts again from what it has.
	mustCommit(t, c.nodes[c.leader()], "later", 0)
	before := c.settled()
	first, err := n.log.FirstIndex()
	require.NoError(t, err)
	require.Greater(t, first, uint64(50), "nothing from before the snapshot is left")
	c.crash(away)
	require.Equal(t, before, meta(t, c.start(away)))
	ready(t, c.nodes[away])
}

func TestLostStateFileIsDamage(t *testing.T) {
	dir, _ := stoppedDir(t)
	config := testConfig(t, "n1")
	config.DataDir = dir
	removeFile(t, config, stateFile)
	n := openNode(t, config)
	<-n.Stopped()
	require.ErrorIs(t, n.Err(), store.ErrCorrupt, "an empty state would begin in the middle of the log")
	require.Zero(t, n.fsm.Applied())

	config.DataDir, _ = stoppedDir(t)
	removeFile(t, config, stateFile)
	removeFile(t, config, recordsFile)
	_, err := Open(config)
	require.ErrorIs(t, err, ErrLogLost, "nor when nothing says what was there")
}

// Random operations from several clients, retried on whoever leads, leave three
// equal states.
func TestRandomOperationsLeaveEqualStates(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	c := startCluster(t, func(c *Config) {
		steady(c)
		c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 20, 50, 30*time.Millisecond
		c.Settings.PruneRows, c.Settings.DeleteRecordsRows, c.Settings.PurgeRows = 2, 2, 3
	})
	createTopic(t, c.nodes[c.leader()])
	leader := c.nodes[c.leader()]
	var done atomic.Int64
	var clients sync.WaitGroup
	for id := range 6 {
		r := rand.New(rand.NewPCG(seed, uint64(id)))
		clients.Go(func() {
			for i := range 60 {
				if _, err := leader.Propose(t.Context(), randomWrite(r, id, i)); err == nil {
					done.Add(1)
				}
			}
		})
	}
	clients.Wait()
	require.EqualValues(t, 360, done.Load())
	c.settled()
}

func randomWrite(r *rand.Rand, client, i int) ops.Write {
	partition := r.Int32N(4)
	switch r.IntN(8) {
	case 0:
		return &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: testTopic, Partition: partition, Offset: -1}}}
	case 1:
		return &ops.PruneDisklessLogsRequest{MaxBatches: 5, Requests: []ops.PruneLog{{TopicID: testTopic, Partition: partition, HighestRemoteOffset: int64(r.IntN(200))}}}
	default:
		w := commitOf(fmt.Sprintf("c%d-%d", client, i), partition)
		w.Batches[0].ProducerID, w.Batches[0].ProducerEpoch = int64(100+client), int16(i)
		w.Batches[0].BaseSequence, w.Batches[0].LastSequence = 0, 9
		return w
	}
}
