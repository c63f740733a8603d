package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// A backup of a running node is whole, is that node's state, and is never half there.
func TestBackupOfARunningNode(t *testing.T) {
	n := startDev(t, filepath.Join(t.TempDir(), "data"))
	_, err := n.client.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 3}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "state.cpnode")
	endpoint := "--endpoints=" + n.url
	var made backedUp
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "backup", file, endpoint, "-o=json")), &made))
	require.NotZero(t, made.Index)
	out := mustRun(t, "check", file)
	require.Contains(t, out, "clean")
	require.Regexp(t, `logs +3 live`, out)
	require.NoFileExists(t, file+".tmp")

	r := cpnode(t, "backup", file, endpoint)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "state.cpnode exists. Replace it? [y/N]")
	require.Contains(t, mustRun(t, "backup", file, endpoint, "--yes"), "everything up to index")

	n.kill()
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	r = cpnode(t, "backup", file, endpoint, "--yes")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "nothing listens at")
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoFileExists(t, file+".tmp")

	for name, damaged := range map[string][]byte{"cut": before[:len(before)-7], "longer": append(before[:len(before):len(before)], 0), "flipped": flipped(before, len(before)/2)} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		r := cpnode(t, "check", path)
		require.Equal(t, exitFailed, r.code, name)
		require.Contains(t, r.stdout, "DAMAGED")
	}
}

func flipped(data []byte, at int) []byte {
	out := append([]byte{}, data...)
	out[at] ^= 1
	return out
}
