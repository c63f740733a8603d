package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// disk makes every change to files but those that bbolt makes within a
// transaction. watch, nil outside of tests, sees each change before it is made: a
// test can die there, or remember what a power cut would leave.
type disk struct {
	watch func(change)
}

// change is one change to a file, or the opening of a database, whose further
// writes watch may want to see too.
type change struct {
	op   diskOp
	path string
	to   string // of a rename
	off  int64
	data []byte
	db   *bbolt.DB // of an opening
}

type diskOp string

const (
	opWrite   diskOp = "write"
	opSync    diskOp = "sync"
	opCreate  diskOp = "create"
	opRename  diskOp = "rename"
	opRemove  diskOp = "remove"
	opSyncDir diskOp = "sync directory"
	opOpenDB  diskOp = "open"
)

func (d disk) saw(c change) {
	if d.watch != nil {
		d.watch(c)
	}
}

// create makes an empty file where none may be.
func (d disk) create(path string) (*os.File, error) {
	d.saw(change{op: opCreate, path: path})
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d disk) writeAt(f *os.File, b []byte, off int64) error {
	d.saw(change{op: opWrite, path: f.Name(), off: off, data: b})
	_, err := f.WriteAt(b, off)
	return err
}

func (d disk) sync(f *os.File) error {
	d.saw(change{op: opSync, path: f.Name()})
	return f.Sync()
}

func (d disk) syncDB(path string, db *bbolt.DB) error {
	d.saw(change{op: opSync, path: path})
	return db.Sync()
}

func (d disk) rename(from, to string) error {
	d.saw(change{op: opRename, path: from, to: to})
	return os.Rename(from, to)
}

// remove removes a file, if there is one.
func (d disk) remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	d.saw(change{op: opRemove, path: path})
	return os.Remove(path)
}

// syncDir makes the names of the directory that path is in durable.
func (d disk) syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	d.saw(change{op: opSyncDir, path: filepath.Dir(path)})
	return errors.Join(dir.Sync(), dir.Close())
}
