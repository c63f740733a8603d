package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// disk makes every change to files but those that bbolt makes within a
// transaction. watch, which may be nil, sees each change before it is made: see
// Options.Watch.
type disk struct {
	watch func(Change) error
}

// Change is one change to a file, or the opening of a database, whose further
// writes a watcher may want to see too.
type Change struct {
	Op   DiskOp
	Path string
	To   string    // of OpRename
	Off  int64     // of OpWrite, in bytes
	Data []byte    // of OpWrite; it is the writer's, and changes after
	DB   *bbolt.DB // of OpOpenDB
}

// DiskOp is a kind of Change.
type DiskOp string

// The kinds of changes. What bbolt does while it makes a new database is seen only
// as the OpCreate of its file and the OpSync that follows.
const (
	OpWrite   DiskOp = "write"
	OpSync    DiskOp = "sync"
	OpCreate  DiskOp = "create"
	OpRename  DiskOp = "rename"
	OpRemove  DiskOp = "remove"
	OpSyncDir DiskOp = "sync directory"
	OpOpenDB  DiskOp = "open"
)

func (d disk) saw(c Change) error {
	if d.watch == nil {
		return nil
	}
	return d.watch(c)
}

// create makes an empty file where none may be.
func (d disk) create(path string) (*os.File, error) {
	if err := d.saw(Change{Op: OpCreate, Path: path}); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d disk) writeAt(f *os.File, b []byte, off int64) error {
	if err := d.saw(Change{Op: OpWrite, Path: f.Name(), Off: off, Data: b}); err != nil {
		return err
	}
	_, err := f.WriteAt(b, off)
	return err
}

func (d disk) sync(f *os.File) error {
	if err := d.saw(Change{Op: OpSync, Path: f.Name()}); err != nil {
		return err
	}
	return f.Sync()
}

func (d disk) syncDB(path string, db *bbolt.DB) error {
	if err := d.saw(Change{Op: OpSync, Path: path}); err != nil {
		return err
	}
	return db.Sync()
}

func (d disk) rename(from, to string) error {
	if err := d.saw(Change{Op: OpRename, Path: from, To: to}); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// remove removes a file, if there is one.
func (d disk) remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.saw(Change{Op: OpRemove, Path: path}); err != nil {
		return err
	}
	return os.Remove(path)
}

// syncDir makes the names of the directory that path is in durable.
func (d disk) syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := d.saw(Change{Op: OpSyncDir, Path: filepath.Dir(path)}); err != nil {
		return errors.Join(err, dir.Close())
	}
	return errors.Join(dir.Sync(), dir.Close())
}
