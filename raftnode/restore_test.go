package raftnode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

// backupOf is a backup of a node that has n commits, and what its state was.
func backupOf(t *testing.T, n int) ([]byte, store.Meta) {
	t.Helper()
	node := openNode(t, testConfig(t, "old"))
	ready(t, node)
	createTopic(t, node)
	for i := range n {
		mustCommit(t, node, fmt.Sprint("f", i), 1)
	}
	b, err := node.Backup()
	require.NoError(t, err)
	defer b.Release()
	mustCommit(t, node, "after the backup", 1)
	var stream bytes.Buffer
	_, err = b.WriteTo(&stream)
	require.NoError(t, err)
	require.EqualValues(t, b.Size(), stream.Len())
	want := meta(t, node)
	require.Less(t, b.Index(), want.AppliedIndex)
	return stream.Bytes(), want
}

func TestRestoreMakesANewClusterOfABackup(t *testing.T) {
	stream, old := backupOf(t, 5)
	c := testConfig(t, "new")
	r, err := RestoreDir(bytes.NewReader(stream), c.DataDir, Peer{ID: "new", Addr: "127.0.0.1:7400"})
	require.NoError(t, err)
	require.Equal(t, old.AppliedIndex-1, r.Index)
	report, err := CheckDir(t.Context(), store.Child{}, c.DataDir)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Equal(t, r.Digest, report.State.Digest)
	require.Equal(t, r.ClusterID, report.ClusterID)

	n := openNode(t, c)
	ready(t, n)
	at, _, err := highWatermark(t.Context(), n, ReadOptions{}, 1)
	require.NoError(t, err)
	require.EqualValues(t, 50, at)
	answer := mustCommit(t, n, "after the restore", 1)
	require.Greater(t, answer.Index, r.Index)
	require.NoError(t, n.Close())
	report, err = CheckDir(t.Context(), store.Child{}, c.DataDir)
	require.NoError(t, err)
	require.NoError(t, report.Err())

	again := openNode(t, c)
	ready(t, again)
	at, _, err = highWatermark(t.Context(), again, ReadOptions{}, 1)
	require.NoError(t, err)
	require.EqualValues(t, 60, at)
	require.Equal(t, r.ClusterID, again.Status().ClusterID)
}

func TestRestoreRefuses(t *testing.T) {
	stream, _ := backupOf(t, 1)
	self := Peer{ID: "new", Addr: "127.0.0.1:7400"}
	used := filepath.Join(t.TempDir(), "used")
	require.NoError(t, os.Mkdir(used, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(used, "photo.jpg"), nil, 0o600))
	_, err := RestoreDir(bytes.NewReader(stream), used, self)
	require.ErrorIs(t, err, ErrNotEmpty)
	require.ErrorContains(t, err, "holds photo.jpg")
	require.FileExists(t, filepath.Join(used, "photo.jpg"))

	flipped := bytes.Clone(stream)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"cut": stream[:len(stream)-1], "flipped": flipped, "longer": append(bytes.Clone(stream), 0), "none": nil} {
		dir := filepath.Join(t.TempDir(), name)
		_, err := RestoreDir(bytes.NewReader(bad), dir, self)
		require.ErrorIs(t, err, store.ErrStream, name)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, "nothing is left")
	}
	for _, p := range []Peer{{"a b", "127.0.0.1:1"}, {"a", "0.0.0.0:1"}, {"a", "127.0.0.1"}} {
		_, err := RestoreDir(bytes.NewReader(stream), filepath.Join(t.TempDir(), "d"), p)
		require.Error(t, err, p)
	}
}
