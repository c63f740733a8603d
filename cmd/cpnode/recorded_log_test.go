package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

var recordLog = flag.Bool("record", false, "record the log of this release's feature level, unless there is one")

const logsDir = "../../testdata/logs"

// recordedDigests is the digest that each recorded log comes to, by its file's name.
func recordedDigests(t *testing.T) map[string]string {
	text, err := os.ReadFile(filepath.Join(logsDir, "digests.txt"))
	require.NoError(t, err)
	digests := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, digest, ok := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, ok, line)
		digests[name] = digest
	}
	return digests
}

// The log of a cluster of each feature level comes to the same state in this release
// and in every later one.
func TestRecordedLogsReplayToTheirDigests(t *testing.T) {
	if *recordLog {
		recordLevel(t)
	}
	for level := 1; level <= ops.FeatureLevel; level++ {
		file := fmt.Sprintf("level-%d.jsonl", level)
		path := filepath.Join(logsDir, file)
		require.Contains(t, mustRun(t, "replay", path, "--digest", recordedDigests(t)[file]), "digest")
		covered := commandsOf(t, path)
		for _, op := range ops.All() {
			require.True(t, !op.IsWrite() || covered[op.Name] || op.FeatureLevel > uint64(level), "%s has no %s", file, op.Name)
		}
		require.True(t, covered["checkpoint-digest"])
	}
	r := cpnode(t, "replay", filepath.Join(logsDir, "level-1.jsonl"), "--digest", strings.Repeat("0", 32))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "the digest is "+recordedDigests(t)["level-1.jsonl"])
}

// commandsOf is the operations of a dumped log.
func commandsOf(t *testing.T, path string) map[string]bool {
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close()
	found := map[string]bool{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxTraceLine)
	for lines.Scan() {
		var e raftnode.LogEntry
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		require.Empty(t, e.Problem)
		found[e.Op] = true
	}
	require.NoError(t, lines.Err())
	return found
}

// recordLevel runs every operation on a cluster of three, split into small entries,
// and keeps its log with its digest.
func recordLevel(t *testing.T) {
	name := fmt.Sprintf("level-%d.jsonl", ops.FeatureLevel)
	nodes, clock := openThree(t)
	for _, trace := range []string{"../../testdata/golden/switch-1.jsonl", "../../api/examples.jsonl", "../../testdata/golden/maintenance-21.jsonl", "../../testdata/golden/datapath-11.jsonl"} {
		proposeTrace(t, nodes, clock, trace)
		propose(t, nodes, &ops.CheckpointDigest{})
	}
	for _, n := range nodes {
		require.NoError(t, n.Close())
	}
	dir := filepath.Dir(nodes[0].dir)
	digest := ""
	for _, n := range nodes {
		report, err := raftnode.CheckDir(t.Context(), store.Child{}, n.dir)
		require.NoError(t, err)
		require.NoError(t, report.Err())
		require.True(t, digest == "" || digest == report.State.Digest)
		digest = report.State.Digest
	}
	mustRun(t, "dump", filepath.Join(dir, "n1"), "--log", "-o", filepath.Join(logsDir, name))
	f, err := os.OpenFile(filepath.Join(logsDir, "digests.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintln(f, name, digest)
	require.NoError(t, errors.Join(err, f.Close()))
}

// embeddedNode is a node of this process with its directory.
type embeddedNode struct {
	*raftnode.Node
	dir string
}

// openThree is a ready cluster with a clock that the test sets, and small entries.
func openThree(t *testing.T) ([]embeddedNode, *atomic.Int64) {
	var clock atomic.Int64
	var peers []raftnode.Peer
	for i := range 3 {
		addr, err := loopback.FreeAddr()
		require.NoError(t, err)
		peers = append(peers, raftnode.Peer{ID: fmt.Sprintf("n%d", i+1), Addr: addr})
	}
	dir := t.TempDir()
	nodes := make([]embeddedNode, len(peers))
	for i, p := range peers {
		c := raftnode.DefaultConfig()
		c.NodeID, c.RaftAddr, c.Peers, c.DataDir = p.ID, p.Addr, peers, filepath.Join(dir, p.ID)
		c.Now = func() time.Time { return time.UnixMilli(clock.Load()) }
		s := &c.Settings
		s.PurgeRows, s.PruneRows, s.RetentionRows, s.DeleteRecordsRows, s.ExpireRows, s.ItemRows, s.BrokerRows = 3, 3, 3, 3, 3, 3, 3
		n, err := raftnode.Open(c)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		nodes[i] = embeddedNode{n, c.DataDir}
	}
	return nodes, &clock
}

// proposeTrace has the writes of a trace carried out at their times, whatever they
// answer: another trace may have come before.
func proposeTrace(t *testing.T, nodes []embeddedNode, clock *atomic.Int64, path string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var tr trace
		require.NoError(t, json.Unmarshal([]byte(line), &tr))
		op, ok := ops.Lookup(tr.Op)
		require.True(t, ok)
		request := op.NewRequest()
		if !op.IsWrite() || wire.Decode(wire.JSON, tr.Request, request, wire.Limits{}) != nil || request.Validate(ops.DefaultLimits()) != nil {
			continue
		}
		clock.Store(tr.NowMs)
		propose(t, nodes, request.(ops.Write))
	}
}

func propose(t *testing.T, nodes []embeddedNode, w ops.Write) {
	require.Eventually(t, func() bool {
		for _, n := range nodes {
			if n.Ready() != nil || n.Status().Role != "leader" {
				continue
			}
			_, err := n.Propose(t.Context(), w)
			if refused := (&ops.Error{}); err == nil || errors.As(err, &refused) && refused.Code != ops.NoLeader {
				return true
			}
		}
		return false
	}, 30*time.Second, time.Millisecond)
}
