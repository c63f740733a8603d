package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

func TestRecoverCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	n := startDev(t, dir)
	_, err := n.client.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: demoOrders.id, TopicName: "orders", NumPartitions: 3}}})
	require.NoError(t, err)
	r := cpnode(t, "recover", dir, "--dry-run")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "in use by another process")
	n.kill()

	out := mustRun(t, "recover", dir, "--dry-run")
	require.Contains(t, out, "entries may never have been committed")
	require.NotContains(t, out, "recovered")
	r = cpnode(t, "recover", dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "given up for good. [y/N]")
	r = cpnode(t, "recover", dir, "--yes", "--peers", "x=127.0.0.1:1")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "this node (dev) is missing")

	var made raftnode.RecoverReport
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "recover", dir, "--yes", "-o=json")), &made))
	require.NotEmpty(t, made.NewClusterID)
	require.Contains(t, mustRun(t, "check", dir), "clean")
	n = startDev(t, dir)
	found, err := n.client.ListTopics(t.Context(), &ops.ListTopicsRequest{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "orders", found.Topics[0].TopicName)
	n.kill()
}
