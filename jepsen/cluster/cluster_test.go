package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/internal/loopback"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// The life of a node: killed, paused, moved to another address, wiped, stopped.
func TestNode(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "cpnode")
	require.NoError(t, Provide(t.Context(), "", binary))
	c := &Cluster{binary: binary, dir: dir}
	t.Cleanup(c.Close)
	n, err := c.Add("solo", "--log-level", "warn")
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	require.Same(t, n, leader)
	create(t, n)
	before, err := n.Instance()
	require.NoError(t, err)

	n.Kill()
	require.ErrorContains(t, n.Pause(), "is down")
	n.HTTPAddr, err = loopback.FreeAddr()
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	require.Equal(t, 1, topics(t, c, n))

	require.NoError(t, n.Pause())
	err = Eventually(t.Context(), "the node to be silent", func() (bool, error) {
		_, err := n.Ask(t.Context()) // not at once: its threads stop one by one
		return err != nil, nil
	})
	require.NoError(t, err)
	require.NoError(t, n.Resume())
	require.Equal(t, 1, topics(t, c, n))

	require.ErrorContains(t, n.Wipe(), "is running")
	require.NoError(t, c.Stop())
	checkState(t, c, n)
	require.NoError(t, n.Wipe())
	require.NoError(t, c.Start(t.Context()))
	after, err := n.Instance()
	require.NoError(t, err)
	require.NotEqual(t, before, after, "it has another directory now")
	require.Zero(t, topics(t, c, n))

	n.Flags = []string{"--no-such-flag"}
	n.Kill()
	require.ErrorContains(t, c.Start(t.Context()), "unknown flag")
	_, err = c.Leader(t.Context())
	require.ErrorContains(t, err, "unknown flag")
}

// Nodes stop with the same entries applied, also when one lacks some of them before.
func TestNodesStopAlike(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "cpnode")
	require.NoError(t, Provide(t.Context(), "", binary))
	c, err := New(binary, dir, "a", "b", "c")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.Start(t.Context()))
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	behind := c.Nodes[0]
	if behind == leader {
		behind = c.Nodes[1]
	}
	require.NoError(t, behind.Stop())
	create(t, leader)
	require.NoError(t, c.Stop())
	alike, err := c.alike(t.Context())
	require.NoError(t, err)
	require.False(t, alike)

	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.StopAlike(t.Context()))
	alike, err = c.alike(t.Context())
	require.NoError(t, err)
	require.True(t, alike)
}

// checkState checks the files of a stopped node, and damages them.
func checkState(t *testing.T, c *Cluster, n *Node) {
	files, err := c.CheckState(t.Context(), n)
	require.NoError(t, err)
	require.True(t, files.Clean, "%s", files.Answer)
	require.NotEmpty(t, files.Digest)
	require.NotZero(t, files.AppliedIndex)

	require.NoError(t, os.Truncate(filepath.Join(n.Dir, "state.db"), 100))
	files, err = c.CheckState(t.Context(), n)
	require.NoError(t, err)
	require.False(t, files.Clean)
	require.Empty(t, files.Digest)
	clean, err := c.Check(t.Context(), n)
	require.NoError(t, err)
	require.False(t, clean)

	require.NoError(t, os.RemoveAll(n.Dir))
	_, err = c.CheckState(t.Context(), n)
	require.ErrorContains(t, err, "no such file")
}

func create(t *testing.T, n *Node) {
	client, err := api.NewClient(api.DefaultClientConfig(n.URL()))
	require.NoError(t, err)
	defer client.Close()
	topic := ops.CreateTopic{TopicID: store.TopicID{1, 6: 0x40, 8: 0x80}, TopicName: "topic", NumPartitions: 1}
	_, err = client.CreateTopics(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{topic}})
	require.NoError(t, err)
}

// topics is how many a settled cluster knows.
func topics(t *testing.T, c *Cluster, n *Node) int {
	_, err := c.Settle(t.Context())
	require.NoError(t, err)
	client, err := api.NewClient(api.DefaultClientConfig(n.URL()))
	require.NoError(t, err)
	defer client.Close()
	answer, err := client.ListTopics(t.Context(), &ops.ListTopicsRequest{Limit: 10})
	require.NoError(t, err)
	return len(answer.Topics)
}
