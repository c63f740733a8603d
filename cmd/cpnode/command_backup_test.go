package main

import (
	"encoding/json"
	"fmt"
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

	restored(t, file, made)

	r := cpnode(t, "backup", file, endpoint)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "state.cpnode exists. Replace it? [y/N]")
	require.Contains(t, mustRun(t, "backup", file, endpoint, "--yes"), "everything up to index")

	other, err := openPartial(file + ".tmp")
	require.NoError(t, err)
	r = cpnode(t, "backup", file, endpoint, "--yes")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "is being written by another backup")
	require.FileExists(t, file+".tmp", "it is the other's")
	require.NoError(t, other.Close())
	mustRun(t, "backup", file, endpoint, "--yes")
	for _, path := range []string{os.DevNull, t.TempDir()} {
		r = cpnode(t, "backup", path, endpoint, "--yes")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "is not a regular file")
	}

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
		dir := filepath.Join(t.TempDir(), "restored")
		r = cpnode(t, "restore", path, "--data-dir", dir, "--node-id", "dev")
		require.Equal(t, exitFailed, r.code, name)
		require.Contains(t, r.stderr, "cannot be restored")
		require.NoFileExists(t, filepath.Join(dir, "state.db"))
	}
}

// restored makes a node of a backup, which serves what the backup holds.
func restored(t *testing.T, file string, made backedUp) {
	dir := filepath.Join(t.TempDir(), "restored")
	args := []string{"restore", file, "--data-dir", dir, "--node-id", "dev"}
	require.Contains(t, mustRun(t, args...), fmt.Sprintf("holds everything up to index %d", made.Index))
	require.Contains(t, mustRun(t, "check", dir), "clean")
	r := cpnode(t, args...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "name an empty or a new directory")
	n := startDev(t, dir)
	found, err := n.client.ListTopics(t.Context(), &ops.ListTopicsRequest{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "orders", found.Topics[0].TopicName)
	n.kill()
}

func flipped(data []byte, at int) []byte {
	out := append([]byte{}, data...)
	out[at] ^= 1
	return out
}
