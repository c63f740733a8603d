package raftnode

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// damage are ways in which a state file goes bad while its node is down.
var damages = map[string]func(t *testing.T, path string){
	"rows": func(t *testing.T, path string) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		key := []byte("0-1") // of a file, wherever it is
		require.True(t, bytes.Contains(data, key))
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(data, key, []byte("0-!")), 0o600))
	},
	"meta pages": func(t *testing.T, path string) {
		for page := range int64(2) {
			require.NoError(t, writeAt(path, page*int64(os.Getpagesize())+20, 0x99))
		}
	},
	"cut short": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 3*int64(os.Getpagesize()))) },
	"gone":      func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
}

func writeAt(path string, off int64, b byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte{b}, off); err != nil {
		return err
	}
	return f.Close()
}

// compacting clusters have logs that do not begin at 1.
func compacting(c *Config) {
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 20, 50, 30*time.Millisecond
}

func startedLate(t *testing.T, n *Node) bool {
	first, err := n.log.FirstIndex()
	require.NoError(t, err)
	return first > 1
}

func TestDamagedStateIsFetched(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, compacting)
			createTopic(t, c.nodes[c.leader()])
			bad := c.followers()[0]
			l := c.load()
			l.more(50, "OK")
			eventually(t, func() bool { return startedLate(t, c.nodes[bad]) }, "the log is compacted")
			term := c.nodes[bad].raft.CurrentTerm()
			l.stop()
			c.stop(bad)
			damage(t, filepath.Join(c.configs[bad].DataDir, stateFile))

			l = c.load()
			n := c.start(bad)
			if n.missing.Load() == nil { // found when it is read
				eventually(t, func() bool { return n.Err() != nil || readAll(n) != nil }, "the damage is found")
				require.ErrorIs(t, n.Err(), store.ErrCorrupt)
				c.stop(bad)
				n = c.start(bad)
			}
			require.GreaterOrEqual(t, n.log.term.Load(), term, "it remembers its vote")
			l.more(50, "OK")
			ready(t, n)
			l.stop()
			c.settled()
			require.Empty(t, n.identity.Load().Corrupt)
			require.Nil(t, n.identity.Load().Replacing)
			if name != "gone" {
				require.FileExists(t, filepath.Join(c.configs[bad].DataDir, stateFile+damagedSuffix))
			}
			before := c.settled()
			c.stop(bad)
			require.Equal(t, before, meta(t, c.start(bad)), "it starts from the fetched state")
			require.NoError(t, c.nodes[c.leader()].Transfer(t.Context(), c.configs[bad].NodeID))
			eventually(t, func() bool { return c.nodes[bad].leading() != nil }, "it can lead")
			mustCommit(t, c.nodes[bad], "after", 0)
			c.settled()
		})
	}
}

// readAll reads the files of a node's state.
func readAll(n *Node) error {
	return n.view(func(tx *store.ReadTx) error { return tx.Files(0, func(*store.File) bool { return true }) })
}

// A node that fetched its state while raft received a snapshot stopped: "snapshot: rename
// state.db.install: no such file or directory".
func TestStateIsFetchedBesideASnapshot(t *testing.T) {
	n := openNode(t, testConfig(t, "n1"))
	ready(t, n)
	createTopic(t, n)
	mustCommit(t, n, "a", 0)
	state, err := n.Backup()
	require.NoError(t, err)
	defer state.Release()
	var stream bytes.Buffer
	_, err = state.WriteTo(&stream)
	require.NoError(t, err)
	at := n.raft.AppliedIndex()
	received := func() string {
		sink, err := n.snapshots.Create(raft.SnapshotVersionMax, at, n.raft.CurrentTerm(), raft.Configuration{}, 1, nil)
		require.NoError(t, err)
		_, err = sink.Write(stream.Bytes())
		require.NoError(t, err)
		require.NoError(t, sink.Close())
		return sink.ID()
	}

	// raft waits behind entries that wait for the state that is fetched.
	id := received()
	fetched, err := n.receiveState(bytes.NewReader(stream.Bytes()), int64(stream.Len()))
	require.NoError(t, err)
	_, _, err = n.snapshots.Open(id)
	require.ErrorIs(t, err, errGivenUp, "the state there is must not pass for it")
	fetched.Abort()

	// raft restores it meanwhile.
	require.Equal(t, id, received())
	_, r, err := n.snapshots.Open(id)
	require.NoError(t, err)
	_, err = n.receiveState(bytes.NewReader(stream.Bytes()), int64(stream.Len()))
	require.ErrorIs(t, err, store.ErrReceiving)
	require.NoError(t, (&timedFSM{n.fsm, n}).Restore(r))
	require.NoError(t, r.Close())
	fetched, err = n.receiveState(bytes.NewReader(stream.Bytes()), int64(stream.Len()))
	require.NoError(t, err)
	fetched.Abort()
}

// A state that arrives when raft has installed a snapshot would be put in place as that
// of an entry which the log no longer reaches back to.
func TestFetchedStateIsTooLate(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	c.settled()
	n, from := c.nodes[c.followers()[0]], c.nodes[c.leader()]
	members, index := n.fsm.Members()
	require.NotZero(t, index)
	require.NoError(t, n.fetchState(from.id(), &missingState{there: make(chan struct{})}))
	now, same := n.fsm.Members()
	require.Equal(t, members, now)
	require.Equal(t, index, same)
}

// Each of two nodes without a state quoted the other's reason in its own, which held the
// first one's: in half a minute no frame was large enough for it.
func TestReasonOfAMissingStateQuotesNoOther(t *testing.T) {
	c := startCluster(t, compacting)
	createTopic(t, c.nodes[c.leader()])
	l := c.load()
	l.more(50, "OK")
	for i := range c.nodes {
		eventually(t, func() bool { return startedLate(t, c.nodes[i]) }, "the log is compacted")
	}
	l.stop()
	c.stopAll()
	for i := range 2 {
		damages["cut short"](t, filepath.Join(c.configs[i].DataDir, stateFile))
		c.start(i)
	}
	for i := range 2 {
		want := c.configs[1-i].NodeID + ": its own state is missing"
		eventually(t, func() bool {
			m := c.nodes[i].missing.Load()
			return m != nil && strings.Contains(m.reason(), want)
		}, "%s says that %s", c.configs[i].NodeID, want)
	}
	c.start(2)
	for _, n := range c.nodes {
		ready(t, n)
	}
}

func TestNodeThatDivergedFetchesTheState(t *testing.T) {
	c := startChecked(t)
	bad := c.followers()[0]
	diverge(t, c.nodes[bad], "stray")
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	<-c.nodes[bad].Stopped()
	c.stop(bad)
	registry := prometheus.NewRegistry()
	c.configs[bad].Registerer = registry
	ready(t, c.start(bad))
	mustCommit(t, c.nodes[c.leader()], "b", 0)
	c.settled()
	require.Empty(t, c.nodes[bad].identity.Load().Corrupt)
	require.Positive(t, sample(t, registry, "cpnode_state_replaced_timestamp_seconds", ""))
}

// Without anyone to fetch from the node waits, and says so; it answers no reads.
func TestNobodyToFetchFrom(t *testing.T) {
	c := startCluster(t, compacting)
	createTopic(t, c.nodes[c.leader()])
	for i := range 100 {
		mustCommit(t, c.nodes[c.leader()], string(rune('a'+i%26))+string(rune('a'+i/26)), 0)
	}
	c.stopAll()
	damages["meta pages"](t, filepath.Join(c.configs[0].DataDir, stateFile))
	n := c.start(0)
	eventually(t, func() bool { return n.missing.Load().why.Load() != nil }, "tries")
	require.ErrorContains(t, n.Ready(), "fetched from another node: n")
	_, err := n.View(t.Context(), ReadOptions{Level: Stale}, func(*store.ReadTx) error { return nil })
	requireCode(t, err, ops.NotCaughtUp)
	_, err = n.Backup()
	requireCode(t, err, ops.NotCaughtUp)
	c.stop(0)
	c.start(0) // again from the beginning
	c.start(1) // with one other there is a majority
	ready(t, c.nodes[0])
	c.settled()
}

func TestLoneNodeRebuildsFromItsLog(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	mustCommit(t, n, "a", 0)
	before := meta(t, n).Digest
	require.NoError(t, n.Close())
	damages["meta pages"](t, filepath.Join(config.DataDir, stateFile))
	n = openNode(t, config)
	ready(t, n)
	eventually(t, func() bool { return meta(t, n).Digest == before }, "rebuilt")
	mustCommit(t, n, "b", 0)
}

func TestLoneNodeWithHalfALogStops(t *testing.T) {
	config := testConfig(t, "n1")
	compacting(&config)
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	l := cluster{t: t, configs: []Config{config}, nodes: []*Node{n, n, n}}
	load := l.load()
	eventually(t, func() bool { return startedLate(t, n) }, "the log is compacted")
	load.stop()
	require.NoError(t, n.Close())
	damages["meta pages"](t, filepath.Join(config.DataDir, stateFile))
	n = openNode(t, config)
	<-n.Stopped()
	require.ErrorIs(t, n.Err(), store.ErrCorrupt)
	require.ErrorContains(t, n.Err(), "restore a backup")
}
