package raftnode

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/cpnode/cpnode/raftnode/wal"
)

// Where a node keeps the entries of raft's log.
const (
	LogStoreBoltDB = "boltdb" // in raft.db: two syncs an append
	LogStoreWAL    = "wal"    // in segment files: one sync an append
)

// entryLog keeps entries that are sealed already. Deletes leave no hole, whenever the
// process dies.
type entryLog interface {
	FirstIndex() (uint64, error) // 0 when there are none
	LastIndex() (uint64, error)
	GetLog(index uint64, entry *raft.Log) error // raft.ErrLogNotFound
	StoreLogs(entries []*raft.Log) error
	DeleteOldest(last uint64) error  // up to last
	DeleteNewest(first uint64) error // from first on
	Close() error
}

// promises keeps what raft must never forget, sealed already.
type promises interface {
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error) // raftboltdb.ErrKeyNotFound
	Close() error
}

// LogDisk keeps raft's entries and promises as they are given to it: see
// Surroundings. What it has stored is durable, all of it or, with an error, nothing.
// Want of space is an *fs.PathError with ENOSPC; after any other error of a write the
// node stops. A delete goes from the end inwards, so that a crash leaves no hole.
type LogDisk interface {
	FirstIndex() (uint64, error) // 0 when there are no entries
	LastIndex() (uint64, error)
	GetLog(index uint64, entry *raft.Log) error // raft.ErrLogNotFound
	StoreLogs(entries []*raft.Log) error
	DeleteOldest(last uint64) error  // up to last
	DeleteNewest(first uint64) error // from first on
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error) // raftboltdb.ErrKeyNotFound
	Close() error
}

// logOn is a log on a LogDisk.
func logOn(open func() (LogDisk, error), snapshots raft.SnapshotStore, timed func(op string, d time.Duration)) (*logStore, error) {
	disk, err := open()
	if err != nil {
		return nil, err
	}
	s := &logStore{promises: disk, entries: entriesOn{disk}, snapshots: snapshots, timed: timed, keeping: make(chan struct{}, 1)}
	if err := s.loadTerms(); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return s, nil
}

// entriesOn are the entries of a LogDisk, which is closed with the promises.
type entriesOn struct{ LogDisk }

// Close does nothing.
func (entriesOn) Close() error { return nil }

var (
	_ entryLog = entriesOn{}
	_ entryLog = boltEntries{}
	_ entryLog = (*wal.Log)(nil)
)

// keySegments is the key of the list of segments, beside raft's promises. A log that
// has it is in segments.
var keySegments = []byte("Segments")

// walDir is the directory of the segments of the log at path.
func walDir(path string) string { return filepath.Join(filepath.Dir(path), "raft.wal") }

// openEntries opens the entries where they are; kind is for those to come.
func (s *logStore) openEntries(kind string, o wal.Options) error {
	list := segmentList{s}
	saved, err := list.Load()
	if err != nil {
		return err
	}
	last, err := s.bolt.LastIndex()
	if err != nil {
		return err
	}
	if saved == nil && (last > 0 || kind == LogStoreBoltDB) {
		s.entries, s.kind = boltEntries{s.bolt}, LogStoreBoltDB
		return nil
	}
	log, err := wal.Open(walDir(s.path), list, o)
	switch {
	case errors.Is(err, wal.ErrDamaged):
		err = fmt.Errorf("%w: %w", ErrLogDamaged, err)
	case errors.Is(err, wal.ErrListLost):
		err = fmt.Errorf("%w: %w; empty the directory and start the node again: it is taken back as a learner", ErrLogLost, err)
	}
	s.entries, s.kind = log, LogStoreWAL
	return err
}

// segmentList keeps the list of segments among the promises, with a checksum.
type segmentList struct{ store *logStore }

// Load returns nil when there is none.
func (l segmentList) Load() ([]byte, error) {
	list, err := l.store.Get(keySegments)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, nil
	}
	return list, err
}

// Save replaces the list durably.
func (l segmentList) Save(list []byte) error { return l.store.Set(keySegments, list) }

// boltEntries are entries in the file of the stable store, which closes it.
type boltEntries struct{ *raftboltdb.BoltStore }

// deleteStep bounds one transaction of a delete, so that appends need not wait for
// the whole of a compaction.
const deleteStep = 1024

// DeleteOldest goes in steps, and looks after each whether it is done: raft-boltdb
// deletes under a cursor, which can skip a key.
func (b boltEntries) DeleteOldest(last uint64) error {
	oldest, err := b.FirstIndex()
	for err == nil && oldest != 0 && oldest <= last {
		if err = b.DeleteRange(oldest, min(last, oldest+deleteStep-1)); err == nil {
			oldest, err = b.FirstIndex()
		}
	}
	return err
}

// DeleteNewest works like DeleteOldest, from the other end.
func (b boltEntries) DeleteNewest(first uint64) error {
	newest, err := b.LastIndex()
	for err == nil && newest >= first {
		if err = b.DeleteRange(max(first, newest-min(newest, deleteStep-1)), newest); err == nil {
			newest, err = b.LastIndex()
		}
	}
	return err
}

// Close does nothing.
func (boltEntries) Close() error { return nil }
