package raftnode

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

// stoppedDir is the data directory of a node that took entries and snapshots, and
// was closed.
func stoppedDir(t *testing.T) (dir string, applied uint64) {
	config := testConfig(t, "n1")
	config.TrailingLogs, config.SnapshotThreshold, config.SnapshotInterval = 5, 20, 20*time.Millisecond
	n, err := Open(config)
	require.NoError(t, err)
	ready(t, n)
	createTopic(t, n)
	for i := range 60 {
		mustCommit(t, n, fmt.Sprintf("file-%d", i), 0)
	}
	eventually(t, func() bool {
		first, err := n.log.FirstIndex()
		return err == nil && first > 20
	}, "the log is cut")
	_, err = CheckDir(t.Context(), store.Child{}, config.DataDir)
	require.ErrorIs(t, err, ErrLocked, "while the node runs")
	require.NoError(t, n.Close())
	return config.DataDir, n.fsm.Applied()
}

func TestCheckDir(t *testing.T) {
	dir, applied := stoppedDir(t)
	r, err := CheckDir(t.Context(), store.Child{}, dir)
	require.NoError(t, err)
	require.NoError(t, r.Err())
	require.Equal(t, "n1", r.NodeID)
	require.Len(t, r.ClusterID, 32)
	require.Equal(t, applied, r.State.AppliedIndex)
	require.GreaterOrEqual(t, r.Log.LastIndex, applied)
	require.Greater(t, r.SnapshotIndex, uint64(20))
	openDirAgain(t, dir)
}

// openDirAgain makes sure that a check left the directory as it was.
func openDirAgain(t *testing.T, dir string) {
	config := testConfig(t, "n1")
	config.DataDir = dir
	ready(t, openNode(t, config))
}

func TestCheckDirFindsWhatIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, dir string){
		"log": func(t *testing.T, dir string) {
			path := filepath.Join(dir, logFile)
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.RemoveAll(walDir(path)))
			s, err := openLog(path, testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.NoError(t, os.Remove(filepath.Join(dir, recordsFile)))
		},
		"snapshot": func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, recordsFile))) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := stoppedDir(t)
			lose(t, dir)
			r, err := CheckDir(t.Context(), store.Child{}, dir)
			require.NoError(t, err)
			require.ErrorIs(t, r.Err(), ErrLogLost)
		})
	}
}

func TestCheckDirPassesDamageOn(t *testing.T) {
	dir, _ := stoppedDir(t)
	require.NoError(t, os.Truncate(filepath.Join(dir, stateFile), 3*4096))
	r, err := CheckDir(t.Context(), store.Child{}, dir)
	require.NoError(t, err)
	require.ErrorIs(t, r.Err(), store.ErrCorrupt)
	require.NoError(t, r.Log.Err())
}

func TestCheckDirRefusesOtherDirectories(t *testing.T) {
	_, err := CheckDir(t.Context(), store.Child{}, t.TempDir())
	require.ErrorIs(t, err, ErrNotDataDir)
	missing := filepath.Join(t.TempDir(), "none")
	_, err = CheckDir(t.Context(), store.Child{}, missing)
	require.ErrorIs(t, err, ErrNotDataDir)
	require.NoDirExists(t, missing)
}

func TestCopyState(t *testing.T) {
	dir, applied := stoppedDir(t)
	path := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, CopyState(dir, path))
	r, err := store.CheckInChild(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, r.Err())
	require.Equal(t, applied, r.AppliedIndex)
	require.ErrorIs(t, CopyState(dir, path), os.ErrExist)

	config := testConfig(t, "n1")
	config.DataDir = dir
	openNode(t, config)
	require.ErrorIs(t, CopyState(dir, path+"2"), ErrLocked)
}
