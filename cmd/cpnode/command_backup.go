package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/store"
)

func backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the state of a running node into a file",
		Long: `Copies the state of the first endpoint that answers, as it is at that moment, while
the node goes on. The copy arrives in FILE.tmp, is checked on the way, synced, and
only then gets its name. cpnode check FILE looks into it, cpnode restore makes a
new cluster of it.`,
		Example: `  cpnode backup state.cpnode
  cpnode backup backups/$(date +%F).cpnode --endpoints http://10.0.0.2:7480`,
		Args:    exactly(1),
		GroupID: groupClient,
	}
	f := addClientFlags(c)
	yes := c.Flags().BoolP("yes", "y", false, "replace FILE if it exists, without asking")
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		if there, err := os.Stat(args[0]); err == nil {
			if !there.Mode().IsRegular() {
				return usagef("FILE: %s is not a regular file, and would be replaced by one", args[0])
			}
			if err := confirmed(cmd, *yes, args[0]+" exists. Replace it?"); err != nil {
				return err
			}
		}
		made, err := backup(cmd.Context(), client, args[0], cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return f.output.print(cmd.OutOrStdout(), made, func(p *printer) {
			p.line(fmt.Sprintf("%s: %s, everything up to index %d (term %d)", made.File, size(made.Bytes), made.Index, made.Term))
		})
	})
	return c
}

// backedUp is the output of `cpnode backup -o json`.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Index uint64 `json:"index"` // of the last log entry in it
	Term  uint64 `json:"term"`
}

// backup leaves a whole file at path, or what was there before.
func backup(ctx context.Context, client *api.Client, path string, progress io.Writer) (made backedUp, err error) {
	partial := path + ".tmp"
	file, err := openPartial(partial)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // and with it the lock, once it has its name
	info, err := client.Backup(ctx, file, showBytes(progress))
	if err := errors.Join(err, file.Sync()); err != nil {
		return made, errors.Join(err, os.Remove(partial))
	}
	if err := os.Rename(partial, path); err != nil {
		return made, errors.Join(err, os.Remove(partial))
	}
	written, err := file.Stat()
	if err != nil {
		return made, err
	}
	return backedUp{path, written.Size(), info.Index, info.Term}, syncParent(path)
}

// openPartial opens the file that a backup arrives in for this process alone: two
// in one file would make a mixture that neither has checked.
func openPartial(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is being written by another backup: %w", path, err), f.Close())
	}
	mine, err := f.Stat()
	named, nameErr := os.Stat(path)
	switch {
	case err != nil || nameErr != nil || !os.SameFile(mine, named):
		err = errors.Join(fmt.Errorf("%s was taken by another backup, which has ended; try again", path), err)
	default:
		err = f.Truncate(0) // of a backup that was interrupted
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// showBytes shows how much of how much has come, about ten times a second.
func showBytes(progress io.Writer) func(done, total int64) {
	show, began, shown := progressOn(progress), time.Now(), time.Time{}
	return func(done, total int64) {
		switch {
		case done >= total:
			show("")
		case time.Since(shown) > 100*time.Millisecond:
			shown = time.Now()
			show(progressText(done>>20, total>>20, "MiB", time.Since(began)))
		}
	}
}

// syncParent makes a file's name last.
func syncParent(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// isBackup says whether a file is what backup writes.
func isBackup(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	head := make([]byte, 16)
	if _, err := io.ReadFull(f, head); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	return store.IsStream(head), nil
}

// checkBackup extracts a backup beside other temporary files, and recounts it in a
// child process. Damage is in the report.
func checkBackup(ctx context.Context, path string) (r store.Report, err error) {
	from, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer from.Close() //nolint:errcheck // it was only read
	dir, err := os.MkdirTemp("", "cpnode-check-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	state := filepath.Join(dir, "state.db")
	_, err = store.Extract(from, state)
	switch {
	case errors.Is(err, store.ErrStream), errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrSchema):
		r.Problems = []string{err.Error()}
		return r, nil
	case err != nil:
		return r, err
	}
	if n, err := from.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		r.Problems = []string{"the file goes on after the end of the backup"}
		return r, nil
	}
	return store.CheckInChild(ctx, state)
}
