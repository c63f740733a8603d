package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// segmentBytes is small, so that a short run has many segments.
const segmentBytes = 16 << 10

// disk is the directory with this broker's local logs.
type disk struct {
	dir string
	// intact: nothing that was acknowledged from here can be lost. The directory is the one
	// of before, and it was closed, or the machine has not been started anew since: what a
	// killed process has written is in the page cache.
	intact bool
	// deleting is called when a log is about to delete segments.
	deleting func(ops.LogRef)

	mu   sync.Mutex
	logs map[ops.LogRef]*segmentlog.Log
}

const markClosed = "closed"

func (d *disk) markFile() string { return filepath.Join(d.dir, "used-in-boot") }

func openDisk(dir string, deleting func(ops.LogRef)) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &disk{dir: dir, deleting: deleting, logs: map[ops.LogRef]*segmentlog.Log{}}
	boot := bootID()
	mark, err := os.ReadFile(d.markFile())
	d.intact = err == nil && (string(mark) == markClosed || boot != "" && string(mark) == boot)
	return d, d.mark(boot)
}

// bootID names this run of the machine; "" where it is not known.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

func (d *disk) mark(text string) error {
	f, err := os.Create(d.markFile())
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func logDir(logs string, ref ops.LogRef) string {
	return filepath.Join(logs, fmt.Sprintf("%s-%d", ref.TopicID, ref.Partition))
}

// open opens the log of a partition, which may be new.
func (d *disk) open(ref ops.LogRef) (*segmentlog.Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	config := segmentlog.DefaultConfig()
	config.SegmentBytes = segmentBytes
	config.BeforeUnlink = func() { d.deleting(ref) }
	log, err := segmentlog.Open(logDir(d.dir, ref), config)
	if err == nil {
		d.logs[ref] = log
	}
	return log, err
}

// holds says whether the log of a partition is open.
func (d *disk) holds(ref ops.LogRef) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.logs[ref]
	return ok
}

// remove deletes the log of a partition that is gone, open or not.
func (d *disk) remove(ref ops.LogRef) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	log, ok := d.logs[ref]
	if !ok {
		return os.RemoveAll(logDir(d.dir, ref))
	}
	delete(d.logs, ref)
	return log.Remove()
}

// close closes all logs and says so on disk.
func (d *disk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	for _, log := range d.logs {
		err = errors.Join(err, log.Close())
	}
	if err != nil {
		return err
	}
	return d.mark(markClosed)
}
