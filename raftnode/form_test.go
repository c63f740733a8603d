package raftnode

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func waitsFor(t *testing.T, n *Node, reason string) {
	t.Helper()
	eventually(t, func() bool {
		err := n.Ready()
		return err != nil && strings.Contains(err.Error(), reason)
	}, "it waits because %q: %v", reason, n.Ready())
}

func TestDifferentPeersFormNoCluster(t *testing.T) {
	c := newCluster(t, nil)
	c.configs[2].Peers = append([]Peer{{ID: "n4", Addr: "127.0.0.1:1"}}, c.configs[2].Peers...)
	for i := range c.configs {
		c.start(i)
	}
	waitsFor(t, c.nodes[0], "n3: was started with the peers "+peerList(c.configs[2].Peers))
	waitsFor(t, c.nodes[2], "n1: was started with the peers "+peerList(c.configs[0].Peers))
	waitsFor(t, c.nodes[2], "n4: is not reached at 127.0.0.1:1 (connect: connection refused): start it there")
	for _, n := range c.nodes {
		require.Empty(t, n.Status().ClusterID)
	}
	_, err := commit(t.Context(), c.nodes[0], "a", 0)
	require.ErrorIs(t, err, ErrNotLeader)

	// Started again with the right ones, they form it.
	c.stop(2)
	c.configs[2].Peers = c.configs[0].Peers
	c.start(2)
	for _, n := range c.nodes {
		ready(t, n)
	}
}

func TestPeersAtSwappedAddresses(t *testing.T) {
	c := newCluster(t, nil)
	wrong := []Peer{c.configs[0].Peers[0], {ID: "n2", Addr: c.configs[2].RaftAddr}, {ID: "n3", Addr: c.configs[1].RaftAddr}}
	c.configs[0].Peers = wrong
	for i := range c.configs {
		c.start(i)
	}
	waitsFor(t, c.nodes[0], c.configs[2].RaftAddr+" is node n3, not n2")
}

func TestSamePeersAgainChangeNothing(t *testing.T) {
	c := startCluster(t, nil)
	before, err := os.ReadFile(filepath.Join(c.configs[0].DataDir, identityFile))
	require.NoError(t, err)
	c.stopAll()
	c.configs[1].Peers = c.configs[1].Peers[1:] // is ignored
	for i := range c.configs {
		c.start(i)
	}
	for _, n := range c.nodes {
		ready(t, n)
		require.Len(t, n.Status().Peers, 3)
	}
	after, err := os.ReadFile(filepath.Join(c.configs[0].DataDir, identityFile))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// changeIdentity rewrites what a stopped node knows of itself.
func changeIdentity(t *testing.T, c Config, change func(*identity)) {
	t.Helper()
	id, err := loadIdentity(c.DataDir, c.NodeID)
	require.NoError(t, err)
	change(&id)
	require.NoError(t, id.save(c.DataDir))
}

// A node may crash at any step of becoming a member while the others go on.
func TestCrashWhileForming(t *testing.T) {
	for name, at := range map[string]func(*testing.T, Config){
		"before it decided": func(t *testing.T, c Config) {
			changeIdentity(t, c, func(id *identity) { id.Members, id.Cluster, id.Joined = nil, clusterID{}, false })
			removeLog(t, c)
			removeFile(t, c, stateFile)
			removeFile(t, c, recordsFile)
		},
		"before the log began": func(t *testing.T, c Config) {
			changeIdentity(t, c, func(id *identity) { id.Joined = false })
			removeLog(t, c)
			removeFile(t, c, stateFile)
			removeFile(t, c, recordsFile)
		},
		"before it said so": func(t *testing.T, c Config) {
			changeIdentity(t, c, func(id *identity) { id.Joined = false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, nil)
			away := c.followers()[0]
			c.stop(away)
			createTopic(t, c.nodes[c.leader()])
			at(t, c.configs[away])
			ready(t, c.start(away))
			require.Equal(t, c.nodes[c.leader()].Status().ClusterID, c.nodes[away].Status().ClusterID)
			c.settled()
		})
	}
}

func TestForeignNodesAreRefused(t *testing.T) {
	ours := openNode(t, testConfig(t, "n1"))
	ready(t, ours)
	theirs := openNode(t, testConfig(t, "n2"))
	ready(t, theirs)
	for _, kind := range []connKind{kindRaft, kindTerm, kindForward, kindControl} {
		_, _, err := ours.network.dial(t.Context(), theirs.RaftAddr(), kind, theirs.id())
		require.ErrorIs(t, err, errRefused)
		require.ErrorContains(t, err, "node n2: it belongs to cluster "+theirs.Status().ClusterID+", node n1 to cluster "+ours.Status().ClusterID)
	}
	_, _, err := ours.network.dial(t.Context(), theirs.RaftAddr(), 99, "")
	require.ErrorContains(t, err, "it does not know this kind of connection")
}

func TestWrongDataDirectory(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)

	_, err = Open(config)
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, n.Close())

	other := config
	other.NodeID = "n2"
	_, err = Open(other)
	require.ErrorIs(t, err, ErrOtherNode)
	require.ErrorContains(t, err, "belongs to n1, not to n2")

	strange := testConfig(t, "n1")
	require.NoError(t, os.MkdirAll(strange.DataDir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(strange.DataDir, "thesis.txt"), nil, 0o600))
	_, err = Open(strange)
	require.ErrorIs(t, err, ErrNotDataDir)
	require.ErrorContains(t, err, "thesis.txt")
	require.NoError(t, os.Rename(filepath.Join(strange.DataDir, "thesis.txt"), filepath.Join(strange.DataDir, "lost+found")))
	require.NoError(t, os.WriteFile(filepath.Join(strange.DataDir, identityFile+".tmp"), []byte("{"), 0o600))
	require.NoError(t, openNode(t, strange).Close())

	busy := testConfig(t, "n3")
	busy.RaftAddr = openNode(t, testConfig(t, "n4")).RaftAddr()
	_, err = Open(busy)
	require.ErrorContains(t, err, busy.RaftAddr)

	require.NoError(t, os.WriteFile(filepath.Join(config.DataDir, identityFile), []byte(`{"format": 3}`), 0o600))
	_, err = Open(config)
	require.ErrorIs(t, err, ErrNewerRelease)
	require.NoError(t, os.WriteFile(filepath.Join(config.DataDir, identityFile), []byte(`{"format": 1}`), 0o600))
	_, err = Open(config)
	require.ErrorIs(t, err, ErrNotDataDir)
}

func TestLostLogIsRefused(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	last := n.raft.LastIndex()
	require.NoError(t, n.Close())

	kept := t.TempDir()
	require.NoError(t, os.CopyFS(kept, os.DirFS(config.DataDir)))
	removeFile(t, config, logFile)
	_, err = Open(config)
	require.ErrorIs(t, err, ErrLogLost)
	removeFile(t, config, stateFile)
	removeFile(t, config, recordsFile)
	_, err = Open(config)
	require.ErrorIs(t, err, ErrLogLost, "not even with the state gone as well")

	restoreLog := func() {
		require.NoError(t, os.RemoveAll(config.DataDir))
		require.NoError(t, os.CopyFS(config.DataDir, os.DirFS(kept)))
	}
	restoreLog()
	n = openNode(t, config)
	ready(t, n)
	eventually(t, func() bool { return meta(t, n).Totals.Topics == 1 }, "the state comes back from the log")
	require.NoError(t, n.Close())

	for problem, cut := range map[string][2]uint64{"it ends at": {last, last + 10}, "it begins at": {1, 1}} {
		restoreLog()
		s, err := openLog(filepath.Join(config.DataDir, logFile), testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
		require.NoError(t, err)
		if cut[0] == 1 {
			require.NoError(t, s.entries.DeleteOldest(cut[1]))
		} else {
			require.NoError(t, s.entries.DeleteNewest(cut[0]))
		}
		require.NoError(t, s.Close())
		// With a record at the state's index the log would not be needed before it.
		removeFile(t, config, recordsFile)
		_, err = Open(config)
		require.ErrorIs(t, err, ErrLogLost)
		require.ErrorContains(t, err, problem)
	}
}

func TestFilesAreThisUsersOnly(t *testing.T) {
	config := testConfig(t, "n1")
	n := openNode(t, config)
	ready(t, n)
	mode := func(name string) os.FileMode {
		info, err := os.Stat(filepath.Join(config.DataDir, name))
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	require.EqualValues(t, 0o700, mode("."))
	for _, file := range []string{identityFile, logFile, stateFile, recordsFile} {
		require.EqualValues(t, 0o600, mode(file), file)
	}
}

func TestIdentityIsTheSameOnAllMembers(t *testing.T) {
	members := []member{{Peer{"n2", "b:2"}, instanceID{2}}, {Peer{"n1", "a:1"}, instanceID{1}}}
	var a, b identity
	a.form(members)
	b.form([]member{members[1], members[0]})
	require.Equal(t, a, b)
	members[0].Instance[0]++
	b.form(members)
	require.NotEqual(t, a.Cluster, b.Cluster)

	text, err := json.Marshal(a)
	require.NoError(t, err)
	var back identity
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, a, back)
	require.Error(t, json.Unmarshal([]byte(`{"cluster": "ab"}`), &back))
}

func TestFatalEntryStopsTheNode(t *testing.T) {
	n := single(t, nil)
	err := n.raft.Apply([]byte{9, 9}, 0).Error()
	require.NoError(t, err, "raft itself is content")
	<-n.Stopped()
	require.Regexp(t, `entry \d+: log entry does not decode: 2 bytes`, n.Err().Error())
	requireCode(t, n.Ready(), ops.NodeCorrupt)
	_, err = commit(t.Context(), n, "a", 0)
	requireCode(t, err, ops.NodeCorrupt)
	require.NoError(t, n.Close())

	// It does not get past it by starting again.
	again, err := Open(n.config)
	require.NoError(t, err)
	defer again.Close()
	<-again.Stopped()
	require.Regexp(t, `entry \d+: log entry does not decode: 2 bytes`, again.Err().Error())
}

// raft would panic over it.
func TestDamagedLogIsRefused(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	mustCommit(t, n, "a", 0)
	next := n.raft.LastIndex() + 1
	require.NoError(t, n.log.entries.StoreLogs([]*raft.Log{{Index: next, Term: 2, Data: []byte("not sealed")}}))
	require.NoError(t, n.Close())
	_, err = Open(config)
	require.ErrorContains(t, err, fmt.Sprintf("raft log is damaged: entry %d ", next))
}

// A list of segments or a vote from an old copy of raft.db knows less than its own log.
func TestPromisesOlderThanTheLogAreRefused(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	require.NoError(t, n.Close())
	s, err := openLog(filepath.Join(config.DataDir, logFile), testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	for _, key := range [][]byte{keyCurrentTerm, keyLastVoteTerm} {
		require.NoError(t, s.Set(key, binary.BigEndian.AppendUint64(nil, 1)))
	}
	require.NoError(t, s.Close())
	_, err = Open(config)
	require.ErrorIs(t, err, ErrLogLost)
	require.ErrorContains(t, err, "its last entry is of term 2, the last that it remembers to have been in is 1")
}

// The state names its cluster, on all nodes alike, after a restore and a recovery as well.
func TestStateOfAnotherClusterIsRefused(t *testing.T) {
	c := startCluster(t, nil)
	createTopic(t, c.nodes[c.leader()])
	require.Equal(t, c.nodes[0].identity.Load().Cluster, clusterID(c.settled().ClusterID))
	b, err := c.nodes[0].Backup()
	require.NoError(t, err)
	defer b.Release()
	restored := testConfig(t, "n4")
	stream, w := io.Pipe()
	go func() { _, err := b.WriteTo(w); w.CloseWithError(err) }()
	r, err := RestoreDir(stream, restored.DataDir, Peer{ID: "n4", Addr: "127.0.0.1:7400"})
	require.NoError(t, err)
	n := openNode(t, restored)
	require.Equal(t, r.ClusterID, clusterID(meta(t, n).ClusterID).String())
	require.NoError(t, n.Close())

	recovered := recoverDir(t, restored, nil, false)
	n = openNode(t, restored)
	require.Equal(t, recovered.NewClusterID, clusterID(meta(t, n).ClusterID).String())
	require.NoError(t, n.Close())
	id, err := readIdentity(restored.DataDir)
	require.NoError(t, err)
	id.Cluster = c.nodes[0].identity.Load().Cluster
	require.NoError(t, id.save(restored.DataDir))
	_, err = Open(restored)
	require.ErrorIs(t, err, ErrOtherCluster)
}

// A node did not start again at once: a child that its process had begun to start held
// the lock for a moment longer.
func TestLockEndsWithTheNode(t *testing.T) {
	config := testConfig(t, "n1")
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	child, err := syscall.Dup(int(n.lock.dir.Fd()))
	require.NoError(t, err)
	defer syscall.Close(child)
	require.NoError(t, n.Close())
	ready(t, openNode(t, config))
}
