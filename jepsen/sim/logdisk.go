package sim

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/cpnode/cpnode/raftnode"
)

// logDisk keeps the log of one data directory, as raftnode.LogDisk: what it has stored
// is durable. It outlives the processes that use it.
type logDisk struct {
	disk *disk

	mu       sync.Mutex
	entries  []raft.Log // without a hole
	promises map[string][]byte
}

var _ raftnode.LogDisk = (*logUse)(nil)

// logUse is a process's use of a logDisk. It ends with the process: what that does
// afterwards reaches nothing.
type logUse struct {
	*logDisk
	by *process
}

// errCrashed is the error of all that a process does to its disk after its end.
var errCrashed = errors.New("this process has crashed")

// FirstIndex implements raftnode.LogDisk.
func (l *logUse) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 {
		return 0, nil
	}
	return l.entries[0].Index, nil
}

// LastIndex implements raftnode.LogDisk.
func (l *logUse) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last(), nil
}

// last needs mu.
func (l *logDisk) last() uint64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].Index
}

// failingRead is how long a read takes that fails.
const failingRead = time.Millisecond

// GetLog implements raftnode.LogDisk. A read that fails takes time, as it does on a real
// disk: raft reads again at once while it hands over its lead, and time would stand still.
func (l *logUse) GetLog(index uint64, entry *raft.Log) error {
	if l.disk.has(readsFail) {
		time.Sleep(failingRead)
	}
	if l.disk.has(readsFail) { // still: who hears of it looks for the fault
		return syscall.EIO
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := l.find(index)
	if !found {
		return raft.ErrLogNotFound
	}
	*entry = l.entries[i]
	entry.Extensions = slices.Clone(entry.Extensions)
	return nil
}

// find needs mu.
func (l *logDisk) find(index uint64) (int, bool) {
	return slices.BinarySearchFunc(l.entries, index, func(e raft.Log, index uint64) int { return int(int64(e.Index) - int64(index)) })
}

// StoreLogs implements raftnode.LogDisk. raft appends in its main loop, holding nothing
// that another goroutine could wait for: a slow disk may wait here. As in raftnode/wal,
// entries behind a hole begin the log anew: a snapshot covers all before them.
func (l *logUse) StoreLogs(entries []*raft.Log) error {
	if d := l.disk.slowness(); d > 0 {
		time.Sleep(d)
	}
	return l.write(func() error { return l.append(entries) }, func() { _ = l.append(entries[:len(entries)/2]) })
}

// append needs mu.
func (l *logDisk) append(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	switch last := l.last(); {
	case last > 0 && entries[0].Index <= last:
		return errors.New("an append over entries that are there")
	case last > 0 && entries[0].Index > last+1:
		l.entries = nil
	}
	for _, e := range entries {
		l.entries = append(l.entries, *e)
	}
	return nil
}

// DeleteOldest implements raftnode.LogDisk.
func (l *logUse) DeleteOldest(last uint64) error {
	return l.delete(func() int {
		i, found := l.find(last)
		if found {
			i++
		}
		return i
	}, func(n int) { l.entries = slices.Clone(l.entries[n:]) })
}

// DeleteNewest implements raftnode.LogDisk.
func (l *logUse) DeleteNewest(first uint64) error {
	return l.delete(func() int {
		i, _ := l.find(first)
		return len(l.entries) - i
	}, func(n int) { l.entries = l.entries[: len(l.entries)-n : len(l.entries)-n] })
}

// delete takes as many entries as count says, or half of them when the process ends
// in the middle.
func (l *logUse) delete(count func() int, take func(n int)) error {
	return l.write(func() error {
		take(count())
		return nil
	}, func() { take(count() / 2) })
}

// Set implements raftnode.LogDisk.
func (l *logUse) Set(key, value []byte) error {
	return l.write(func() error {
		l.promises[string(key)] = slices.Clone(value)
		return nil
	}, nil)
}

// Get implements raftnode.LogDisk.
func (l *logUse) Get(key []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, ok := l.promises[string(key)]
	if !ok {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return slices.Clone(value), nil
}

// Close implements raftnode.LogDisk.
func (l *logUse) Close() error { return nil }

// write makes one durable change, if the disk takes it. A process may end before it,
// with half of it done where there is a half, or with all of it.
func (l *logUse) write(whole func() error, half func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.by.count(logWrites)
	switch {
	case l.by.dead():
		return errCrashed
	case l.disk.has(syncsFail):
		return syscall.EIO
	case l.disk.has(logFull):
		return &fs.PathError{Op: "write", Path: "raft.log", Err: syscall.ENOSPC}
	case end == endBefore:
		if half != nil {
			half()
		}
		l.by.tripped()
		return errCrashed
	}
	err := whole()
	if end == endAfter {
		l.by.tripped()
	}
	return err
}

// wipe takes all away.
func (l *logDisk) wipe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.promises = nil, map[string][]byte{}
}
