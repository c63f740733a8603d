package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/internal/crashdisk"
	"github.com/cpnode/cpnode/store"
)

// diskFault is something that is wrong with a disk for a while.
type diskFault int

const (
	logFull    diskFault = iota // appends find no space
	stateFull                   // the state file finds no space
	syncsFail                   // writes to the log are not durable, and say so
	stateFails                  // the same of the state
	readsFail                   // entries of the log cannot be read
	stateLies                   // syncs of the state do nothing
	spaceLow                    // little is free
	diskFaults
)

// disk is what a node's machine keeps: the log, in memory, and the directory of the
// state, whose files are real, with what of them would survive a power cut.
type disk struct {
	dir    string
	log    *logDisk
	faults [diskFaults]atomic.Bool
	slow   atomic.Int64 // nanoseconds of an append

	io    sync.Mutex // held by writes to the state file, and while it is looked at
	model *crashdisk.Disk
	boot  int
}

func newDisk(dir string) *disk {
	d := &disk{dir: dir, model: crashdisk.New(nil)}
	d.log = &logDisk{disk: d}
	d.log.wipe()
	return d
}

func (d *disk) has(f diskFault) bool { return d.faults[f].Load() }

func (d *disk) slowness() time.Duration { return time.Duration(d.slow.Load()) }

// Free bytes that a healthy and a nearly full disk have.
const (
	plenty = 1 << 40
	little = 1 << 20
)

func (d *disk) free() int64 {
	if d.has(spaceLow) {
		return little
	}
	return plenty
}

func (d *disk) bootID() string {
	d.io.Lock()
	defer d.io.Unlock()
	return fmt.Sprintf("boot %d", d.boot)
}

// saw takes a change to the files of the state, unless the disk refuses it.
func (d *disk) saw(c store.Change) error {
	d.io.Lock()
	defer d.io.Unlock()
	switch {
	case c.Op == store.OpWrite && d.has(stateFull) && filepath.Ext(c.Path) != ".sync": // the records have their room already
		return &fs.PathError{Op: "write", Path: c.Path, Err: syscall.ENOSPC}
	case c.Op == store.OpSync && d.has(stateFails):
		return syscall.EIO
	case c.Op != store.OpSync:
		d.model.Do(c)
		return nil
	}
	data, err := os.ReadFile(c.Path)
	if err != nil {
		return err
	}
	d.model.Holds(c.Path, data)
	if !d.has(stateLies) {
		d.model.Do(c)
	}
	return nil
}

// cut is what is left of the directory when the power fails now. It needs io.
func (d *disk) cut(r *rand.Rand) (map[string][]byte, error) {
	present, err := d.files()
	if err != nil {
		return nil, err
	}
	for _, name := range d.model.Names() {
		if _, ok := present[name]; !ok { // put aside by the node, durably
			d.model.Forget(name)
		}
	}
	left := d.model.Cut(r)
	seen := d.model.Names()
	for name, data := range present {
		if !slices.Contains(seen, name) { // not the store's, durable since it was written
			left[name] = data
		}
	}
	return left, nil
}

func (d *disk) files() (map[string][]byte, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(d.dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		files[e.Name()] = data
	}
	return files, nil
}

// restore makes the directory hold these files and no others, on a machine that was
// booted since.
func (d *disk) restore(files map[string][]byte) error {
	d.io.Lock()
	defer d.io.Unlock()
	d.boot++
	if err := errors.Join(os.RemoveAll(d.dir), os.MkdirAll(d.dir, 0o700)); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(d.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	d.model = crashdisk.New(files)
	d.model.Forget(identityFile) // the node writes it beside the store, durably
	return nil
}

// wipe makes the disk a new one.
func (d *disk) wipe() error {
	d.log.wipe()
	return d.restore(nil)
}

// unsound says whether a node may have to stop for what its disk does.
func (d *disk) unsound() bool {
	return d.has(syncsFail) || d.has(stateFails) || d.has(readsFail) || d.has(stateLies)
}

// faulty says whether anything is wrong with the disk now.
func (d *disk) faulty() bool {
	for f := range diskFaults {
		if d.has(f) {
			return true
		}
	}
	return false
}
