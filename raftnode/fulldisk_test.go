package raftnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// smallDisk is a file system of its own, below which a node keeps its data.
type smallDisk struct {
	t   *testing.T
	dir string
}

const smallDiskSize = "64m"

func newSmallDisk(t *testing.T) smallDisk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+smallDiskSize); err != nil {
		t.Skipf("a small file system needs root and the right to mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return smallDisk{t, dir}
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// fill takes what is free, but for some bytes.
func (d smallDisk) fill(leave int64) {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.dir, "ballast"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(d.t, err)
	_, err = io.CopyN(f, zeros{}, max(0, diskFree(d.dir)-leave))
	if leave == 0 {
		_, err = io.Copy(f, zeros{})
		require.ErrorIs(d.t, err, syscall.ENOSPC)
	}
	if !errors.Is(err, syscall.ENOSPC) { // the node may have taken some meanwhile
		require.NoError(d.t, err)
	}
	require.NoError(d.t, f.Close())
}

func (d smallDisk) free() {
	d.t.Helper()
	require.NoError(d.t, os.Remove(filepath.Join(d.dir, "ballast")))
}

// startOnSmallDisks starts a cluster with each node on a file system of its own.
func startOnSmallDisks(t *testing.T, minFree int64) (*cluster, []smallDisk) {
	t.Helper()
	var disks []smallDisk
	for range 3 {
		disks = append(disks, newSmallDisk(t))
	}
	i := 0
	c := startCluster(t, func(c *Config) {
		c.DataDir, c.DiskMinFree, c.OutcomeTimeout = filepath.Join(disks[i].dir, c.NodeID), minFree, 3*time.Second
		c.LeaderSlowDisk = 2 * time.Second
		c.Registerer = prometheus.NewRegistry()
		i++
	})
	createTopic(t, c.nodes[c.leader()])
	return c, disks
}

// load commits from several clients, each of which goes to whoever leads.
type load struct {
	cluster *cluster
	stopped atomic.Bool
	done    sync.WaitGroup

	mu       sync.Mutex
	outcomes map[string]int
	strange  []error
	acked    []string
}

func (c *cluster) load() *load {
	ctx := c.t.Context()
	l := &load{cluster: c, outcomes: map[string]int{}}
	c.t.Cleanup(l.stop)
	nodes := slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node) bool { return n == nil })
	for client := range 4 {
		l.done.Go(func() {
			for i := 0; !l.stopped.Load() && ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d", client, i)
				n := nodes[(client+i)%len(nodes)]
				for _, m := range nodes {
					if m.leading() != nil {
						n = m
					}
				}
				_, err := n.Propose(ctx, commitOf(key, int32(client)))
				if ctx.Err() == nil {
					l.note(key, err)
				}
				if err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return l
}

func (l *load) note(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var answer *ops.Error
	switch {
	case err == nil:
		l.outcomes["OK"]++
		l.acked = append(l.acked, key)
	case errors.As(err, &answer):
		l.outcomes[string(answer.Code)]++
	default:
		l.outcomes["other"]++
		l.strange = append(l.strange, err)
	}
}

func (l *load) count(outcomes ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, outcome := range outcomes {
		n += l.outcomes[outcome]
	}
	return n
}

// more waits until clients saw one of the outcomes so many more times.
func (l *load) more(times int, outcomes ...string) {
	l.cluster.t.Helper()
	from := l.count(outcomes...)
	eventually(l.cluster.t, func() bool { return l.count(outcomes...) >= from+times }, "%v %d times more", outcomes, times)
}

// stop returns when all clients have their last answers: what they gave up instead
// could still be written.
func (l *load) stop() {
	l.stopped.Store(true)
	l.done.Wait()
}

// requireFit stops the load and checks what clients saw, that nothing acknowledged
// is lost and that all nodes came to the same without a restart.
func (l *load) requireFit(codes ...ops.Code) {
	t, c := l.cluster.t, l.cluster
	t.Helper()
	l.stop()
	t.Logf("clients saw %v", l.outcomes)
	allowed := map[string]bool{"OK": true}
	for _, code := range codes {
		allowed[string(code)] = true
	}
	for outcome := range l.outcomes {
		require.True(t, allowed[outcome], "%v %v", l.outcomes, l.strange)
	}
	for _, n := range c.nodes {
		require.NoError(t, n.Err())
		ready(t, n)
	}
	c.settled()
	for _, n := range c.nodes {
		require.NoError(t, n.store.View(func(tx *store.ReadTx) error {
			for _, key := range l.acked {
				_, found, err := tx.FileByKey(key)
				require.True(t, found, "%s on %s", key, n.config.NodeID)
				require.NoError(t, err)
			}
			return nil
		}))
	}
}

func TestOneFullDisk(t *testing.T) {
	c, disks := startOnSmallDisks(t, 16<<20)
	l := c.load()
	l.more(50, "OK")
	full := c.leader()
	disks[full].fill(8 << 20)
	c.otherLeader(full)
	l.more(200, "OK")
	require.NotEmpty(t, c.nodes[full].space.low())
	disks[full].free()
	eventually(t, func() bool { return c.nodes[full].space.low() == "" }, "space again")
	l.more(50, "OK")
	l.requireFit(ops.StorageFull, ops.NoLeader, ops.OutcomeUnknown)
}

func TestAllDisksFull(t *testing.T) {
	c, disks := startOnSmallDisks(t, 16<<20)
	require.NoError(t, create(t, c.nodes[c.leader()], 1, 2))
	l := c.load()
	l.more(50, "OK")
	for _, d := range disks {
		d.fill(8 << 20)
	}
	for _, n := range c.nodes {
		eventually(t, func() bool { return n.space.low() != "" }, "low")
	}
	l.more(100, string(ops.StorageFull))
	eventually(t, func() bool {
		_, err := c.nodes[c.leader()].Propose(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topic(1)}})
		return err == nil
	}, "topics can be deleted")
	for _, d := range disks {
		d.free()
	}
	l.more(100, "OK")
	l.requireFit(ops.StorageFull, ops.NoLeader, ops.OutcomeUnknown)
}

// Without a reserve the lack of space reaches raft's log and the state.
func TestOneDiskWithoutReserveFull(t *testing.T) {
	c, disks := startOnSmallDisks(t, 0)
	l := c.load()
	l.more(50, "OK")
	full := c.leader()
	disks[full].fill(0)
	l.more(500, "OK")
	disks[full].free()
	l.more(50, "OK")
	l.requireFit(ops.StorageFull, ops.NoLeader, ops.OutcomeUnknown)
}

func TestAllDisksWithoutReserveFull(t *testing.T) {
	c, disks := startOnSmallDisks(t, 0)
	l := c.load()
	l.more(50, "OK")
	for _, d := range disks {
		d.fill(0)
	}
	// A segment has its space, but not the state, nor raft.db: a leader that can still
	// write refuses, and if it goes no other can note its vote.
	l.more(1000, string(ops.StorageFull), string(ops.NoLeader))
	for _, d := range disks {
		d.free()
	}
	l.more(100, "OK")
	l.requireFit(ops.StorageFull, ops.NoLeader, ops.OutcomeUnknown)
}

// raft counts on an append that follows a cut: see StoreLogs.
func TestAppendAfterACutWaitsForSpace(t *testing.T) {
	eachLogStore(t, testAppendAfterACutWaitsForSpace)
}

func testAppendAfterACutWaitsForSpace(t *testing.T, kind string) {
	d := newSmallDisk(t)
	s, err := openLog(filepath.Join(d.dir, logFile), kind, &snapshotStore{}, func(string, time.Duration) {})
	require.NoError(t, err)
	defer s.Close()
	waits := make(chan error, 1)
	s.starved = func(err error) bool {
		select {
		case waits <- err:
		default:
		}
		return true
	}
	entry := func(index uint64, size int) []*raft.Log {
		return []*raft.Log{{Index: index, Term: 1, Data: make([]byte, size)}}
	}
	require.NoError(t, s.StoreLogs(entry(1, 10)))
	require.NoError(t, s.StoreLogs(entry(2, 10)))
	d.fill(0)
	const size = 17 << 20 // more than a segment has
	require.ErrorIs(t, s.StoreLogs(entry(3, size)), syscall.ENOSPC, "raft deals with it")
	require.NoError(t, s.deleteNewest(2))
	done := make(chan error, 1)
	go func() { done <- s.StoreLogs(entry(2, size)) }()
	require.ErrorIs(t, <-waits, syscall.ENOSPC)
	d.free()
	require.NoError(t, <-done)
	last, err := s.LastIndex()
	require.NoError(t, err)
	require.EqualValues(t, 2, last)
	require.NoError(t, s.GetLog(2, &raft.Log{}))
}
