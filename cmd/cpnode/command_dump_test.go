package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// stoppedDev is the directory of a node that has a topic and ten commits.
func stoppedDev(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "data")
	n := startDev(t, dir)
	for _, args := range [][]string{{"dump", dir}, {"dump", dir, "--log"}, {"compact", dir}} {
		r := cpnode(t, args...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "data directory is in use by another process")
	}
	_, err := n.client.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 1}}})
	require.NoError(t, err)
	for i := range 10 {
		_, err := n.client.CommitFile(t.Context(), &ops.CommitFileRequest{ObjectKey: fmt.Sprint("wal/", i), Format: 1, FileSize: 1, Batches: []ops.CommitBatch{{
			TopicID: demoOrders.id, Magic: 2, ByteSize: 1, LastOffset: 4, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1}}})
		require.NoError(t, err)
	}
	require.NoError(t, n.signal(syscall.SIGTERM))
	<-n.exited
	require.NoError(t, n.err)
	n.process = nil
	return dir
}

func TestDumpAndReplayOfALog(t *testing.T) {
	dir := stoppedDev(t)
	work := t.TempDir()
	file := func(name string, lines ...string) string {
		path := filepath.Join(work, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		return path
	}
	var state stateHead
	stateLines := strings.Split(strings.TrimSpace(mustRun(t, "dump", dir)), "\n")
	require.NoError(t, json.Unmarshal([]byte(stateLines[0]), &state))
	require.EqualValues(t, 10, state.Totals.Batches)
	require.Len(t, grep(stateLines, `"bucket":"batches"`), 10)

	log := filepath.Join(work, "log.jsonl")
	require.Empty(t, mustRun(t, "dump", dir, "--log", "-o", log))
	r := cpnode(t, "dump", dir, "--log", "-o", log)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "log.jsonl exists: name another file")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, grep(lines, `"op":"commit-file"`), 10)
	require.Contains(t, lines[1], `"suffrage":"Voter"`)

	want := fmt.Sprintf("index %d (term %d), digest %s\n", state.AppliedIndex, state.AppliedTerm, state.Digest)
	require.Contains(t, mustRun(t, "replay", log, "--digest", state.Digest), want)
	require.NotContains(t, mustRun(t, "replay", log, "--to", fmt.Sprint(state.AppliedIndex-1)), state.Digest)

	cut := file("cut.jsonl", lines[:len(lines)-1]...)
	tail := file("tail.jsonl", append([]string{strings.Replace(lines[0], `"first_index":1`, `"first_index":6`, 1)}, lines[6:]...)...)
	hole := file("hole.jsonl", append(lines[:5:5], lines[6:]...)...)
	newer := file("newer.jsonl", strings.Replace(lines[0], `"format":1`, `"format":2`, 1))
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{cut}, "the dump was cut short: it ends at entry"},
		{[]string{tail}, "the log begins at 6, what came before is in a snapshot: give a state that holds it with --from"},
		{[]string{hole}, "hole.jsonl:6: entry 6 where 5 should be"},
		{[]string{newer}, "a dump of format 2, this release reads 1"},
		{[]string{file("state.jsonl", stateLines...)}, "is a dumped state; replay takes a dumped log or recorded operations"},
		{[]string{log, "--digest", "abc"}, "the digest is " + state.Digest + ", not abc"},
	} {
		r := cpnode(t, append([]string{"replay"}, c.args...)...)
		require.Equal(t, exitFailed, r.code, c.args)
		require.Contains(t, r.stderr, c.says)
	}
	require.Contains(t, mustRun(t, "replay", tail, "--from", dir, "--digest", state.Digest), want)
}

// A compacted directory holds the same, and its node goes on from it.
func TestCompact(t *testing.T) {
	dir := stoppedDev(t)
	before := mustRun(t, "check", dir)
	var c compacted
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "compact", dir, "-o=json")), &c))
	require.Less(t, c.BytesAfter, c.BytesBefore)
	require.Contains(t, mustRun(t, "compact", dir), " before, ")
	require.Equal(t, before, mustRun(t, "check", dir))
	startDev(t, dir).kill()
}

// grep is the lines that have some text.
func grep(lines []string, text string) []string {
	var found []string
	for _, line := range lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
