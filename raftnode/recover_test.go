package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func recoverDir(t *testing.T, c Config, peers []Peer, dryRun bool) RecoverReport {
	t.Helper()
	r, err := RecoverDir(t.Context(), store.Child{}, c.DataDir, peers, dryRun)
	require.NoError(t, err)
	return r
}

// One node is left of three. It goes on alone with an entry that the others never
// confirmed, takes in those who come back empty, and has nothing to do with those
// who come back as they were.
func TestRecover(t *testing.T) {
	c := startCluster(t, steady) // the one that is left leads on for a while
	createTopic(t, c.nodes[c.leader()])
	mustCommit(t, c.nodes[c.leader()], "a", 0)
	before := c.settled()
	left, old := c.leader(), c.followers()
	_, err := RecoverDir(t.Context(), store.Child{}, c.configs[left].DataDir, nil, true)
	require.ErrorIs(t, err, ErrLocked)
	c.stop(old[0])
	c.stop(old[1])
	tail := c.nodes[left].raft.LastIndex() + 1
	future := c.nodes[left].raft.Apply(entryOf(t, c.nodes[left], "b"), 0)
	eventually(t, func() bool { return c.nodes[left].raft.State() != raft.Leader }, "it leads no more")
	require.Error(t, future.Error())
	c.stop(left)

	config := c.configs[left]
	files := dirFiles(t, config.DataDir)
	r := recoverDir(t, config, config.Peers, true)
	require.Equal(t, files, dirFiles(t, config.DataDir), "a dry run changes nothing")
	require.Equal(t, before.AppliedIndex, r.AppliedIndex)
	require.Equal(t, tail, r.LastIndex)
	require.Equal(t, r.CurrentTerm, r.LastTerm)
	require.Equal(t, tail-before.AppliedIndex, r.Uncertain)
	require.Len(t, r.Members, 3)
	require.Empty(t, r.NewClusterID)
	lost := r.ClusterID
	r = recoverDir(t, config, config.Peers, false)
	require.NotEqual(t, r.ClusterID, r.NewClusterID)
	r = recoverDir(t, config, config.Peers, false) // again, as after an interruption
	require.EqualValues(t, 1, r.Uncertain, "the mark of the first time")

	n := c.start(left)
	ready(t, n)
	require.Equal(t, r.NewClusterID, n.Status().ClusterID)
	require.Equal(t, before.Totals.Batches+1, meta(t, n).Totals.Batches, "the uncertain entry is certain now")

	// The others come back as they were, and are a majority of the old cluster.
	c.start(old[0])
	c.start(old[1])
	eventually(t, func() bool { return c.nodes[old[0]].leading() != nil || c.nodes[old[1]].leading() != nil }, "they have a leader")
	mustCommit(t, n, "c", 0)
	require.Len(t, voters(n.servers()), 1)
	require.NotNil(t, n.leading())
	_, err = n.askAddr(t.Context(), Peer{c.configs[old[0]].NodeID, c.configs[old[0]].RaftAddr}, controlRequest{Verb: verbReport})
	require.ErrorContains(t, err, "it belongs to cluster "+lost)
	require.Contains(t, []string{c.configs[old[0]].NodeID, c.configs[old[1]].NodeID}, c.nodes[old[0]].LeaderID())

	// Emptied, they are taken in.
	c.wipe(old[0])
	c.wipe(old[1])
	c.start(old[0])
	c.start(old[1])
	for _, i := range old {
		ready(t, c.nodes[i])
	}
	eventually(t, func() bool { return len(voters(n.servers())) == 3 && len(n.servers()) == 3 }, "three voters")
	mustCommit(t, c.nodes[c.leader()], "d", 0)
	c.settled()
}

// A node that was recovered in part holds what its cluster may never have committed.
func TestRecoverInterruptedLeavesTheCluster(t *testing.T) {
	config := testConfig(t, "n1")
	config.RaftAddr = freeAddr(t) // another one would be an entry to apply
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	before := n.self()
	require.NoError(t, n.Close())
	peers := []Peer{{"n1", n.advertised}}

	inTheWay := filepath.Join(config.DataDir, stateFile+".install", "x")
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	_, err = RecoverDir(t.Context(), store.Child{}, config.DataDir, peers, false)
	require.ErrorContains(t, err, "run it again")
	id, err := readIdentity(config.DataDir)
	require.NoError(t, err)
	require.NotEqual(t, before.Cluster, id.Cluster)
	require.NotEqual(t, before.Instance, id.Instance)

	require.NoError(t, os.RemoveAll(filepath.Dir(inTheWay)))
	_, err = RecoverDir(t.Context(), store.Child{}, config.DataDir, nil, false)
	require.ErrorContains(t, err, "peers: must be given")
	r := recoverDir(t, config, peers, false)
	n = openNode(t, config)
	ready(t, n)
	require.Equal(t, r.NewClusterID, n.Status().ClusterID)
	offset, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
	require.NoError(t, err, "before there is anything new to apply")
	require.Zero(t, offset)
	mustCommit(t, n, "a", 0)
}

// entryOf is the log entry of a commit.
func entryOf(t *testing.T, n *Node, key string) []byte {
	t.Helper()
	var entry []byte
	errCaught := errors.New("caught")
	_, err := ops.Run(commitOf(key, 0), n.config.Settings, n.view, n.clock, func(cmd ops.Command) (_ any, err error) {
		op, _ := ops.Lookup(cmd.Op())
		entry, err = n.encode(op, cmd, false)
		return nil, errors.Join(err, errCaught)
	})
	require.ErrorIs(t, err, errCaught)
	return entry
}

func dirFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil {
			all[path] = string(data)
		}
	}
	return all
}

// A node that was to replace another directory has a placeholder for its address,
// which is none to go on at.
func TestRecoverANodeWithoutAddress(t *testing.T) {
	id := identity{NodeID: "n1", Instance: instanceID{1}}
	s := raft.Server{ID: id.serverID(), Address: raft.ServerAddress(id.serverID())}
	require.Equal(t, []Peer{{ID: "n1"}}, peersOf([]raft.Server{s}))
	members := []RecoverMember{{ID: "n1", Instance: id.Instance.String(), Addr: addrOf(s)}}
	_, _, err := recovered(&id, members, nil)
	require.ErrorContains(t, err, "peers: must be given")
	_, servers, err := recovered(&id, members, []Peer{{"n1", "127.0.0.1:7400"}})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7400", addrOf(servers[0]))
}

func TestWhatCannotBeRecovered(t *testing.T) {
	_, err := RecoverDir(t.Context(), store.Child{}, t.TempDir(), nil, false)
	require.ErrorIs(t, err, ErrNotDataDir)

	c := newCluster(t, nil)
	waitsFor(t, c.start(0), "n2")
	c.stop(0)
	_, err = RecoverDir(t.Context(), store.Child{}, c.configs[0].DataDir, nil, false)
	require.ErrorContains(t, err, "was never part of a cluster")

	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	require.NoError(t, n.Close())
	_, err = RecoverDir(t.Context(), store.Child{}, config.DataDir, []Peer{{"n2", "127.0.0.1:1"}}, false)
	require.ErrorContains(t, err, "this node (n1) is missing")
}

// aheadOfItsLog is the directory of a node that was stopped after it had installed the
// state of another one and before its log came as far; astray entries of its log lie in
// the place of others, and were never committed.
func aheadOfItsLog(t *testing.T, astray uint64) (config Config, state store.StreamInfo) {
	t.Helper()
	other := testConfig(t, "other")
	n, err := Open(other)
	require.NoError(t, err)
	ready(t, n)
	require.NoError(t, n.Close())
	n = openNode(t, other) // in a later term
	ready(t, n)
	createTopic(t, n)
	for i := range 20 {
		mustCommit(t, n, fmt.Sprint("f", i), 0)
	}
	b, err := n.Backup()
	require.NoError(t, err)
	defer b.Release()

	config = testConfig(t, "n1")
	config.RaftAddr = freeAddr(t)
	n, err = Open(config)
	require.NoError(t, err)
	ready(t, n)
	term, last := n.raft.CurrentTerm(), n.raft.LastIndex()
	require.Less(t, last+1, b.Index())
	require.NoError(t, n.Close())
	s, err := store.Open(filepath.Join(config.DataDir, stateFile), config.stateOptions())
	require.NoError(t, err)
	machine, err := fsm.New(s, fsm.Owner{})
	require.NoError(t, err)
	at, err := fsm.RecordedPosition(s)
	require.NoError(t, err)
	received, err := s.Receive()
	require.NoError(t, err)
	_, err = b.WriteTo(received)
	require.NoError(t, err)
	state, err = received.Finish()
	require.NoError(t, err)
	require.Less(t, term, state.Term)
	require.NoError(t, machine.Restore(&fsm.Received{Receiver: received, At: at}))
	require.NoError(t, s.Close())
	log, err := openLog(filepath.Join(config.DataDir, logFile), testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	if astray > 0 {
		require.NoError(t, log.StoreLogs(strayEntries(last+1, last+astray, term)))
	}
	require.NoError(t, log.Close())
	return config, state
}

// The new cluster began behind what the state held, and its first entries were taken for
// applied: their answers were unknown, and they had no effect.
func TestRecoverFromAStateAheadOfItsLog(t *testing.T) {
	for name, astray := range map[string]uint64{"log ends before": 0, "log holds others": 5, "log holds others beyond": 60} {
		t.Run(name, func(t *testing.T) {
			config, state := aheadOfItsLog(t, astray)
			r := recoverDir(t, config, nil, true)
			require.Equal(t, state.Index, r.LastIndex)
			require.Equal(t, state.Term, r.LastTerm)
			require.Zero(t, r.Uncertain)
			r = recoverDir(t, config, nil, false)
			n := openNode(t, config)
			ready(t, n)
			require.Equal(t, r.NewClusterID, n.Status().ClusterID)
			for i := range 5 {
				answer := mustCommit(t, n, fmt.Sprint("new", i), 0)
				require.Greater(t, answer.Index, state.Index)
			}
			at, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
			require.NoError(t, err)
			require.EqualValues(t, 250, at)
			require.NoError(t, n.Close())
			ready(t, openNode(t, config))
		})
	}
}

// The log was emptied, and the next start put the state aside, with nobody to fetch
// another one from.
func TestRecoverRefusesAStateThatIsNotedAsBad(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	n.fail(fmt.Errorf("%w: at log entry 5", ErrDiverged))
	require.NoError(t, n.Close())
	files := dirFiles(t, config.DataDir)
	for _, dry := range []bool{true, false} {
		_, err = RecoverDir(t.Context(), store.Child{}, config.DataDir, nil, dry)
		require.ErrorIs(t, err, store.ErrCorrupt)
		require.ErrorContains(t, err, "the state differs from that of other nodes: at log entry 5; if it is the one to go on from")
	}
	require.Equal(t, files, dirFiles(t, config.DataDir))
}
