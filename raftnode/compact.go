package raftnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/cpnode/cpnode/store"
)

// compactTxBytes bounds one transaction of the copy of a raft log.
const compactTxBytes = 1 << 20

// CompactDir writes the state file and the raft log of a stopped node anew without
// the pages that are free in them, each beside the old one, and puts it in place
// once it is checked and synced. It returns the bytes of both before and after. A
// crash leaves each file as it was or compacted. Errors: ErrLocked while the node
// runs, ErrNotDataDir, store.ErrCorrupt, ErrLogDamaged.
func CompactDir(ctx context.Context, child store.Child, dir string) (before, after int64, err error) {
	_, lock, err := lockStopped(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	stateBefore, stateAfter, err := store.Compact(filepath.Join(dir, stateFile), store.Options{Child: child})
	if err != nil {
		return stateBefore, stateAfter, fmt.Errorf("compact the state: %w", err)
	}
	logBefore, logAfter, err := compactLog(ctx, child, filepath.Join(dir, logFile))
	if err != nil {
		err = fmt.Errorf("compact the raft log: %w", err)
	}
	return stateBefore + logBefore, stateAfter + logAfter, err
}

func compactLog(ctx context.Context, child store.Child, path string) (before, after int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	before = info.Size()
	was, err := checkedLog(ctx, child, path)
	if err != nil {
		return before, before, err
	}
	beside := path + ".compact"
	defer os.RemoveAll(beside) // in place it has another name
	if err := copyLog(path, beside); err != nil {
		return before, before, err
	}
	is, err := checkedLog(ctx, child, beside)
	if err != nil {
		return before, before, err
	}
	if is != was {
		return before, before, fmt.Errorf("%w: compacted it is %+v, before it was %+v", ErrLogDamaged, is, was)
	}
	if info, err = os.Stat(beside); err != nil {
		return before, before, err
	}
	if err := errors.Join(os.Rename(beside, path), syncDir(filepath.Dir(path))); err != nil {
		return before, before, err
	}
	return before, info.Size(), nil
}

func checkedLog(ctx context.Context, child store.Child, path string) (LogReport, error) {
	r, err := CheckLogInChild(ctx, child, path)
	if err == nil {
		err = r.Err()
	}
	return r, err
}

// copyLog copies a bbolt file to a new one at path, and syncs it.
func copyLog(from, path string) (err error) {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	source, err := bbolt.Open(from, 0, boltOptions(true))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	o := boltOptions(false)
	o.NoSync, o.NoGrowSync = true, true
	to, err := bbolt.Open(path, 0o600, o)
	if err != nil {
		return err
	}
	return errors.Join(bbolt.Compact(to, source, compactTxBytes), to.Sync(), to.Close())
}
