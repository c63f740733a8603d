package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/store"
)

// DirReport is what CheckDir found in a data directory.
type DirReport struct {
	NodeID    string       `json:"node_id"`
	ClusterID string       `json:"cluster_id,omitempty"` // empty: no cluster was formed yet
	State     store.Report `json:"state"`
	Log       LogReport    `json:"log"`
	// SnapshotIndex is that of the newest snapshot, 0 when there is none.
	SnapshotIndex uint64 `json:"snapshot_index"`
	received      uint64 // of its position

	// Problem says that the parts do not belong together, empty when they do.
	Problem string `json:"problem,omitempty"`
}

// Err is nil for a directory that is whole; else it wraps store.ErrCorrupt,
// ErrLogDamaged or ErrLogLost.
func (r *DirReport) Err() error {
	err := errors.Join(r.State.Err(), r.Log.Err())
	if r.Problem != "" {
		err = errors.Join(err, fmt.Errorf("%w: %s", ErrLogLost, r.Problem))
	}
	return err
}

// CheckDir checks the state file and the raft log of a stopped node, each in a
// child process, and whether they belong together. It changes nothing. Damage is in
// the report; the error says that the directory could not be checked: ErrLocked
// while its node runs, ErrNotDataDir.
func CheckDir(ctx context.Context, child store.Child, dir string) (r DirReport, err error) {
	id, lock, err := lockStopped(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return checkLocked(ctx, child, dir, &id)
}

// checkLocked is CheckDir of a directory that the caller has locked.
func checkLocked(ctx context.Context, child store.Child, dir string, id *identity) (r DirReport, err error) {
	if r.NodeID = id.NodeID; id.formed() {
		r.ClusterID = id.Cluster.String()
	}
	if r.State, err = child.Check(ctx, filepath.Join(dir, stateFile)); err != nil {
		return r, err
	}
	if r.Log, err = CheckLogInChild(ctx, child, filepath.Join(dir, logFile)); err != nil {
		return r, err
	}
	if err := r.findSnapshot(dir); err != nil {
		return r, err
	}
	if r.Problem == "" {
		r.Problem = r.together()
	}
	return r, nil
}

// lockStopped takes the directory of a node that does not run, and makes none.
func lockStopped(dir string) (identity, *dirLock, error) {
	id, err := readIdentity(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s has no %s", ErrNotDataDir, dir, identityFile)
	}
	if err != nil {
		return id, nil, err
	}
	lock, err := lockDir(dir)
	return id, lock, err
}

// CopyState copies the state file of a stopped node to a new file at path. Errors:
// ErrLocked, ErrNotDataDir, or of the files.
func CopyState(dir, path string) (err error) {
	_, lock, err := lockStopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	from, err := os.Open(filepath.Join(dir, stateFile))
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// findSnapshot finds the record that the state file goes with.
func (r *DirReport) findSnapshot(dir string) error {
	record, ok, err := store.NewestRecord(filepath.Join(dir, stateFile), r.State.AppliedIndex)
	if err != nil || !ok {
		return err
	}
	at, err := fsm.DecodePosition(record.Part)
	if err != nil {
		r.Problem = err.Error()
	}
	r.SnapshotIndex, r.received = at.Index, at.Received
	return nil
}

// together says what is missing between snapshot, log and state, of parts that are
// each whole.
func (r *DirReport) together() string {
	last := max(r.Log.LastIndex, r.SnapshotIndex, r.received)
	switch {
	case r.State.Err() != nil || r.Log.Err() != nil:
		return ""
	case last < r.State.AppliedIndex:
		return fmt.Sprintf("the log ends at %d, the state at %d", last, r.State.AppliedIndex)
	case r.Log.FirstIndex > r.SnapshotIndex+1:
		return fmt.Sprintf("the log begins at %d, the snapshot ends at %d", r.Log.FirstIndex, r.SnapshotIndex)
	}
	return ""
}
