package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// What is left of a cluster goes on from one directory, after a look that changes
// nothing and a question.
func TestRecover(t *testing.T) {
	dir := stoppedDev(t)
	before := mustRun(t, "check", dir)
	var found []recoverable
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "recover", dir, "--dry-run", "-o=json")), &found))
	require.Equal(t, "dev", found[0].NodeID)
	require.NotZero(t, found[0].LastIndex)
	require.Contains(t, mustRun(t, "recover", dir, "--dry-run"), "nothing here can tell how much that is")
	require.Equal(t, before, mustRun(t, "check", dir))

	r := cpnode(t, "recover", dir) // the answer is empty
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "Make "+dir+" the whole of a new cluster? [y/N] cpnode: nothing was done")
	require.Equal(t, before, mustRun(t, "check", dir))

	require.Contains(t, mustRun(t, "recover", dir, "--yes"), "is node dev of the new cluster")
	require.NotContains(t, mustRun(t, "check", dir), found[0].ClusterID)
	n := startDev(t, dir)
	files, err := n.client.ListFiles(t.Context(), &ops.ListFilesRequest{Limit: 100})
	require.NoError(t, err)
	require.Len(t, files.Files, 10)
}

// What two clusters hold says nothing of which has come further.
func TestRecoverComparesOneClusterOnly(t *testing.T) {
	a, b := stoppedDev(t), stoppedDev(t)
	r := cpnode(t, "recover", a, b, "--dry-run")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "how far they have come cannot be compared")
	require.Contains(t, mustRun(t, "recover", a, a, "--dry-run"), "recover from "+a)
}

func TestRecoverSaysThatANodeWasRemoved(t *testing.T) {
	var out strings.Builder
	printRecoverable(&printer{w: &out}, []recoverable{{"a", raftnode.RecoverReport{LastIndex: 9}}, {"b", raftnode.RecoverReport{LastIndex: 5, Removed: true}}})
	require.Contains(t, out.String(), "b was removed from its cluster")
	require.NotContains(t, out.String(), "a was removed")
}

// From the first directory at hand, what another one has would be lost.
func TestRecoverSaysToCompareTheOthers(t *testing.T) {
	const advice = "compare all that are left with --dry-run"
	printed := func(found ...recoverable) string {
		var out strings.Builder
		printRecoverable(&printer{w: &out}, found)
		return out.String()
	}
	three := raftnode.RecoverReport{LastIndex: 9, Members: make([]raftnode.RecoverMember, 3)}
	require.Contains(t, printed(recoverable{"a", three}), advice)
	require.NotContains(t, printed(recoverable{"a", three}, recoverable{"b", three}), advice)
	require.NotContains(t, printed(recoverable{"a", raftnode.RecoverReport{LastIndex: 9, Members: make([]raftnode.RecoverMember, 1)}}), advice)
}

func TestFurthestIsWhomAnElectionWouldPrefer(t *testing.T) {
	at := func(dir string, term, index uint64) recoverable {
		return recoverable{dir, raftnode.RecoverReport{LastTerm: term, LastIndex: index}}
	}
	require.Equal(t, "b", furthest([]recoverable{at("a", 3, 90), at("b", 4, 10), at("c", 4, 9)}).Dir)
	require.Equal(t, "a", furthest([]recoverable{at("a", 4, 11), at("b", 4, 10), at("c", 2, 99)}).Dir)
}
