package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/store"
)

// dieAt ends nodes as if their processes had died at this moment: what they do to
// their directories when they are closed is undone. They must be idle.
func dieAt(t *testing.T, end func(), configs ...Config) {
	t.Helper()
	kept := map[string][]byte{}
	for _, c := range configs {
		for _, name := range []string{stateFile, recordsFile, logFile, identityFile} {
			path := filepath.Join(c.DataDir, name)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			kept[path] = data
		}
	}
	end()
	for path, data := range kept {
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
}

func TestStateGoesBackWithTheMachineAndTheLogBringsTheRest(t *testing.T) {
	config := testConfig(t, "n1")
	config.StateSync, config.StateSyncInterval, config.StateSyncMaxTransactions = StateSyncInterval, time.Hour, 1_000_000
	boot := "one"
	config.Surroundings.BootID = func() string { return boot }
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	for i := range 10 {
		mustCommit(t, n, fmt.Sprint("a", i), 0)
	}
	require.NoError(t, n.fsm.Sync())
	at := n.store.Record().Index
	for i := range 10 {
		mustCommit(t, n, fmt.Sprint("b", i), 1)
	}
	before := meta(t, n)
	require.Greater(t, before.AppliedIndex, at)
	dieAt(t, func() { require.NoError(t, n.Close()) }, config)

	boot = "two"
	n, err = Open(config)
	require.NoError(t, err)
	require.Equal(t, at, n.store.Record().Index)
	eventually(t, func() bool { return meta(t, n).AppliedIndex >= before.AppliedIndex }, "the log is read again")
	require.Equal(t, before, meta(t, n))
	ready(t, n)
	mustCommit(t, n, "after", 2)
	require.NoError(t, n.Close())
}

func TestSyncPointsComeByThemselves(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"by time":         func(c *Config) { c.StateSyncInterval = 5 * time.Millisecond },
		"by transactions": func(c *Config) { c.StateSyncInterval, c.StateSyncMaxTransactions = time.Hour, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t, "n1")
			change(&config)
			n := openNode(t, config)
			ready(t, n)
			createTopic(t, n)
			for i := range 8 {
				mustCommit(t, n, fmt.Sprint(i), 0)
				flushed(t, n)
			}
			var at fsm.Position
			eventually(t, func() bool { // the next one may come between two looks
				record := n.store.Record().Index
				var err error
				at, err = fsm.RecordedPosition(n.store)
				return err == nil && n.store.Unrecorded() < 3 && at.Index == record
			}, "a sync point, which is a snapshot")
			require.Equal(t, n.raft.GetConfiguration().Configuration(), at.Configuration)
		})
	}
}

// breakFile puts a pipe, which cannot be synced, in the place of an open file.
func breakFile(t *testing.T, path string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(r.Close(), w.Close()) })
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := false
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && to == path {
			n, err := strconv.Atoi(fd.Name())
			require.NoError(t, err)
			require.NoError(t, syscall.Dup3(int(w.Fd()), n, 0))
			found = true
		}
	}
	require.True(t, found, "%s is open", path)
}

// A node whose state cannot be synced must not go on as if it were.
func TestFailedSyncStopsTheNode(t *testing.T) {
	config := testConfig(t, "n1")
	config.StateSyncInterval = time.Hour
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	breakFile(t, filepath.Join(config.DataDir, recordsFile))
	require.ErrorIs(t, n.fsm.Sync(), store.ErrSync)
	<-n.Stopped()
	require.ErrorIs(t, n.Err(), store.ErrSync)
	require.Error(t, n.Ready())
	_ = n.Close()
}

// TestFollowerIsRestoredWhileWritesGoOn restores a follower by snapshot, with a
// state that is newer than the snapshot says, and kills all three.
func TestFollowerIsRestoredWhileWritesGoOn(t *testing.T) {
	boot := "one"
	c := startCluster(t, func(c *Config) {
		steady(c)
		c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 5, 20, 20*time.Millisecond
		c.StateSync, c.StateSyncInterval = StateSyncInterval, 20*time.Millisecond
		c.Surroundings.BootID = func() string { return boot }
	})
	createTopic(t, c.nodes[c.leader()])
	away := c.followers()[0]
	c.stop(away)
	leader := c.nodes[c.leader()]
	stop, done := make(chan struct{}), make(chan struct{})
	written := 0
	go func() {
		defer close(done)
		for ; ; written++ {
			select {
			case <-stop:
				return
			default:
				mustCommit(t, leader, fmt.Sprint(written), int32(written%4))
			}
		}
	}()
	eventually(t, func() bool {
		first, err := leader.log.FirstIndex()
		return err == nil && first > 100
	}, "the log is cut")
	n := c.start(away)
	ready(t, n)
	close(stop)
	<-done
	before := c.settled()
	first, err := n.log.FirstIndex()
	require.NoError(t, err)
	require.Greater(t, first, uint64(100), "it was restored")

	dieAt(t, func() {
		for i := range c.nodes {
			c.crash(i)
		}
	}, c.configs...)
	boot = "two"
	for i := range c.nodes {
		c.start(i)
	}
	for _, n := range c.nodes {
		ready(t, n)
	}
	require.Equal(t, before, c.settled())
	mustCommit(t, c.nodes[c.leader()], "after", 0)
	c.settled()
}

// raft.RecoverCluster makes a snapshot with other members and empties the log.
func TestRecoverClusterOnRecords(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	for i := range 30 {
		mustCommit(t, n, fmt.Sprint(i), 0)
	}
	last, before := n.raft.LastIndex(), meta(t, n)
	dieAt(t, func() { require.NoError(t, n.Close()) }, config)

	state, err := store.Open(filepath.Join(config.DataDir, stateFile), config.stateOptions())
	require.NoError(t, err)
	machine, err := fsm.New(state, fsm.Owner{Stopped: func(err error) { t.Error(err) }, NoSpace: func(error) bool { return false }})
	require.NoError(t, err)
	snapshots := &snapshotStore{store: state}
	log, err := openLog(filepath.Join(config.DataDir, logFile), testLogStore, snapshots, func(string, time.Duration) {})
	require.NoError(t, err)
	members := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "a:1"}, {ID: "n9", Address: "b:1"}}}
	_, transport := raft.NewInmemTransport("")
	require.NoError(t, raft.RecoverCluster(config.RaftConfig(), machine, log, log, snapshots, transport, members))
	newest, err := newestSnapshot(snapshots)
	require.NoError(t, err)
	require.Equal(t, last, newest.Index)
	require.Equal(t, members, newest.Configuration)
	require.EqualValues(t, 1, newest.ConfigurationIndex)
	require.NoError(t, machine.Sync())
	require.NoError(t, errors.Join(log.Close(), state.Close()))

	again, err := store.Open(filepath.Join(config.DataDir, stateFile), config.stateOptions())
	require.NoError(t, err)
	at, err := fsm.RecordedPosition(again)
	require.NoError(t, err)
	require.Equal(t, members, at.Configuration)
	require.Equal(t, last, at.Index)
	require.NoError(t, again.View(func(tx *store.ReadTx) error {
		require.Equal(t, before, tx.Meta())
		return nil
	}))
	require.NoError(t, again.Close())
}

func TestCompactDir(t *testing.T) {
	dir, applied := stoppedDir(t)
	before, after, err := CompactDir(t.Context(), store.Child{}, dir)
	require.NoError(t, err)
	require.Less(t, after, before)
	r, err := CheckDir(t.Context(), store.Child{}, dir)
	require.NoError(t, err)
	require.NoError(t, r.Err())
	require.Equal(t, applied, r.State.AppliedIndex)
	openDirAgain(t, dir)
}
