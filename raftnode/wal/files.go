package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft-wal/types"
)

const suffix = ".wal"

// files is the directory as raft-wal's segment package sees it.
type files struct{ readOnly bool }

var _ types.VFS = files{}

// ListDir returns the names of the segment files in dir.
func (files) ListDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Create makes a file of size zero bytes that is durable, so that one that is missing
// or shorter later on is damage. What a failed attempt or a crash left under its name
// is replaced: no list has it yet.
func (files) Create(dir, name string, size uint64) (types.WritableFile, error) {
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(allocate(f, int64(size)), f.Sync(), syncDir(dir)); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return &file{File: f}, nil
}

// Delete removes a file that no list has any more.
func (files) Delete(dir, name string) error { return os.Remove(filepath.Join(dir, name)) }

// OpenReader opens a file for reading.
func (files) OpenReader(dir, name string) (types.ReadableFile, error) {
	return os.Open(filepath.Join(dir, name))
}

// OpenWriter opens the file that is appended to.
func (v files) OpenWriter(dir, name string) (types.WritableFile, error) {
	flag := os.O_RDWR
	if v.readOnly {
		flag = os.O_RDONLY
	}
	f, err := os.OpenFile(filepath.Join(dir, name), flag, 0)
	if err != nil {
		return nil, err
	}
	return &file{File: f}, nil
}

// file knows how much of it is durable. It is written from the front to the back by
// one goroutine.
type file struct {
	*os.File
	written, synced int64
	unsure          bool // a sync has failed
}

// WriteAt writes beyond what is durable.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	f.written = at + int64(n)
	return n, err
}

// Sync makes what was written durable. Its error never looks like that of a write
// that found no space: after it, nothing is known of what was written.
func (f *file) Sync() error {
	if err := syncData(f.File); err != nil {
		f.unsure = true
		return fmt.Errorf("sync %s: %v", f.Name(), err) //nolint:errorlint // on purpose
	}
	f.synced = f.written
	return nil
}

// erase makes zeros of all bytes from at on, durably.
func erase(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	zeros := make([]byte, 1<<20)
	for ; err == nil && at < size; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
