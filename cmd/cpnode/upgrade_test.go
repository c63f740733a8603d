package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// buildRelease builds this release, or one of the next feature level that has one
// more operation, and returns the binary.
func buildRelease(t *testing.T, next bool) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-o", filepath.Join(dir, "cpnode")}
	if next {
		args = append(args, "-overlay", nextOverlay(t, dir))
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return filepath.Join(dir, "cpnode")
}

// nextOverlay names the files that a release of the next level differs in.
func nextOverlay(t *testing.T, dir string) string {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	levelFile := filepath.Join(root, "ops", "feature_level.go")
	source, err := os.ReadFile(levelFile)
	require.NoError(t, err)
	present := fmt.Sprintf("const FeatureLevel = %d\n", ops.FeatureLevel)
	require.Contains(t, string(source), present)
	raised := filepath.Join(dir, "feature_level.go")
	require.NoError(t, os.WriteFile(raised, []byte(strings.Replace(string(source), present, fmt.Sprintf("const FeatureLevel = %d\n", ops.FeatureLevel+1), 1)), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		levelFile: raised,
		filepath.Join(root, "ops", "fence_object.go"): filepath.Join(root, "cmd", "cpnode", "testdata", "next_release", "fence_object.go"),
	}})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, overlay, 0o600))
	return path
}

// become stops the node with SIGTERM, and starts it with another binary.
func (n *child) become(t *testing.T, binary string) {
	t.Helper()
	if n.process != nil {
		require.NoError(t, n.signal(syscall.SIGTERM))
		<-n.exited
		require.NoError(t, n.err)
		n.process = nil
	}
	require.NoError(t, n.startBinary(binary))
	require.NoError(t, n.awaitReady(t.Context()))
}

// Three nodes go to the next release one after the other. Nothing of it is to be had
// before all run it and the level was raised; a node that goes back then stops, says
// why, and spoils nothing.
func TestRollingUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds two releases and restarts three nodes")
	}
	before, after := buildRelease(t, false), buildRelease(t, true)
	c, err := newCluster(t.TempDir())
	require.NoError(t, err)
	for _, n := range c.nodes {
		require.NoError(t, n.startBinary(before))
	}
	for _, n := range c.nodes {
		require.NoError(t, n.awaitReady(t.Context()))
	}
	t.Cleanup(c.kill)
	l, err := startLoad(t.Context(), c, 2, demoOrders)
	require.NoError(t, err)
	status, answer, _ := post(t, c.nodes[0], "fence-object", `{"object_key": "k"}`)
	require.Equal(t, http.StatusNotFound, status, answer)

	for i, n := range c.nodes {
		n.become(t, after)
		status, answer, header := post(t, n, "fence-object", `{"object_key": "k"}`)
		require.Equal(t, http.StatusNotImplemented, status, answer)
		require.Contains(t, answer, "UNSUPPORTED_FEATURE_LEVEL")
		require.Equal(t, fmt.Sprint(ops.FeatureLevel), header.Get("X-Cpnode-Feature-Level"))
		if i < len(c.nodes)-1 {
			refusedUpgrade(t, after, c, c.nodes[i+1:])
		}
	}
	require.Contains(t, upgrade(t, after, c), fmt.Sprintf("feature level %d -> %d\n", ops.FeatureLevel, ops.FeatureLevel+1))
	require.Contains(t, upgrade(t, after, c), fmt.Sprintf("at feature level %d already", ops.FeatureLevel+1))
	for _, n := range c.nodes {
		require.NoError(t, eventually(t.Context(), "the operation to be there", func() (bool, error) {
			status, _, header := post(t, n, "fence-object", `{"object_key": "k"}`)
			return status == http.StatusOK && header.Get("X-Cpnode-Feature-Level") == fmt.Sprint(ops.FeatureLevel+1), nil
		}))
	}
	require.NoError(t, l.finish())
	goesBack(t, c, before, after)
	_, err = l.verify(t.Context())
	require.NoError(t, err)
}

// upgrade runs cluster upgrade of a release, which must succeed once the leader has
// heard of all members again.
func upgrade(t *testing.T, binary string, c *cluster) (out string) {
	t.Helper()
	require.NoError(t, eventually(t.Context(), "the level to be raised", func() (bool, error) {
		text, err := upgradeCommand(t, binary, c).CombinedOutput()
		out = string(text)
		return err == nil, nil
	}), out)
	return out
}

func upgradeCommand(t *testing.T, binary string, c *cluster) *exec.Cmd {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, n.url)
	}
	return exec.CommandContext(t.Context(), binary, "cluster", "upgrade", "--yes", "--endpoints", strings.Join(urls, ","))
}

// refusedUpgrade expects the members that are not ready to be named.
func refusedUpgrade(t *testing.T, binary string, c *cluster, old []*child) {
	t.Helper()
	require.NoError(t, eventually(t.Context(), "the members that are not ready to be named", func() (bool, error) {
		out, err := upgradeCommand(t, binary, c).CombinedOutput()
		if err == nil {
			return false, fmt.Errorf("it was raised: %s", out)
		}
		for _, n := range old {
			if !strings.Contains(string(out), fmt.Sprintf("%s runs a release that supports level %d; upgrade that first", n.id, ops.FeatureLevel)) {
				return false, nil
			}
		}
		return strings.Contains(string(out), "UNSUPPORTED_FEATURE_LEVEL"), nil
	}))
}

// goesBack starts a node with the release before, which must not go on, and then
// again with its own.
func goesBack(t *testing.T, c *cluster, before, after string) {
	n := c.nodes[2]
	require.NoError(t, n.signal(syscall.SIGTERM))
	<-n.exited
	require.NoError(t, n.err)
	require.NoError(t, n.startBinary(before))
	<-n.exited
	require.Error(t, n.err)
	require.Contains(t, lastLines(n.logFile()), fmt.Sprintf("the cluster is at feature level %d, this release supports %d: run a newer release on this node", ops.FeatureLevel+1, ops.FeatureLevel))
	n.process = nil
	require.NoError(t, n.startBinary(after))
	require.NoError(t, n.awaitReady(t.Context()))
	_, err := c.settle(t.Context())
	require.NoError(t, err)
}
