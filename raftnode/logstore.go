package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/cpnode/cpnode/raftnode/wal"
)

// ErrLogDamaged is wrapped by every error that says that the raft log holds what
// was not written: the node must be rebuilt.
var ErrLogDamaged = errors.New("raft log is damaged")

// logStore is raft's log and stable store, with a checksum on every entry and
// value. What raft promised is in raft-boltdb, entries are there or in segment files
// beside (package wal). An entry's CRC-32C, over its index, term, type, time,
// data and extensions, is the last four bytes of the extensions it is stored
// with; a value's, over key and value, is the last four bytes of the value.
type logStore struct {
	path      string
	bolt      *raftboltdb.BoltStore // nil on a LogDisk
	promises  promises
	entries   entryLog
	kind      string // of entries: LogStoreBoltDB or LogStoreWAL
	snapshots raft.SnapshotStore
	gaps      gaps
	pace      pace
	timed     func(op string, d time.Duration)
	// starved is told why something cannot be stored for want of space, waits a moment
	// and says whether to try again; with nil, that it was stored.
	starved func(error) (again bool)
	// beforeAppend, set in tests, may delay an append.
	beforeAppend func()
	// cut: the newest entries were deleted, and none was appended since.
	cut bool
	// before stands for the entry before the first one, where a snapshot was installed in
	// front of entries that may be another leader's: see DeleteRange.
	before atomic.Pointer[raft.Log]
	// halt stops the node; it is set once raft runs.
	halt atomic.Pointer[func(error)]

	// term is the highest term that this node has voted or been told of.
	term    atomic.Uint64
	keeping chan struct{} // full while it is stored: no mutex, which who waits for space would hold over simulated time
}

var (
	_ raft.LogStore          = (*logStore)(nil)
	_ raft.MonotonicLogStore = (*logStore)(nil)
	_ raft.StableStore       = (*logStore)(nil)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	crcSize        = 4
	logLockTimeout = 2 * time.Second
	logMmapBytes   = 256 << 20
)

// The keys under which raft keeps its promises.
var (
	keyCurrentTerm  = []byte("CurrentTerm")
	keyLastVoteTerm = []byte("LastVoteTerm")
)

func boltOptions(readOnly bool) *bbolt.Options {
	o := *bbolt.DefaultOptions
	o.Timeout = logLockTimeout
	o.ReadOnly = readOnly
	o.NoFreelistSync = true
	o.FreelistType = bbolt.FreelistMapType
	o.InitialMmapSize = logMmapBytes
	return &o
}

// openLog opens the log that goes with snapshots; one without entries so far keeps
// them as kind says. timed is told how long each read and write took.
func openLog(path, kind string, snapshots raft.SnapshotStore, timed func(op string, d time.Duration)) (*logStore, error) {
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(false)})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%w: %s: %w", ErrLogDamaged, path, err)
	case err != nil:
		return nil, fmt.Errorf("open raft log: %w", err)
	}
	s := &logStore{path: path, bolt: bolt, promises: bolt, snapshots: snapshots, timed: timed, keeping: make(chan struct{}, 1)}
	if err := s.loadTerms(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), bolt.Close())
	}
	if err := s.openEntries(kind, wal.Options{}); err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return s, nil
}

// readLog opens the log of a stopped node and changes nothing.
func readLog(path string) (*logStore, error) {
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(true)})
	if err != nil {
		return nil, err
	}
	s := &logStore{path: path, bolt: bolt, promises: bolt, timed: func(string, time.Duration) {}, keeping: make(chan struct{}, 1)}
	if err := s.openEntries(LogStoreBoltDB, wal.Options{ReadOnly: true}); err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return s, nil
}

func (s *logStore) loadTerms() error {
	for _, key := range [][]byte{keyCurrentTerm, keyLastVoteTerm} {
		term, err := s.GetUint64(key)
		if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
			return err
		}
		s.sawTerm(term)
	}
	return nil
}

// lastTerm is the term of the last entry, 0 without any.
func (s *logStore) lastTerm() (uint64, error) {
	last, err := s.LastIndex()
	if err != nil || last == 0 {
		return 0, err
	}
	var entry raft.Log
	err = s.GetLog(last, &entry)
	return entry.Term, err
}

// scanGaps notes the entries after the state's index that the state machine will
// never see. It is called once, before raft starts.
func (s *logStore) scanGaps(applied uint64) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	for i := max(applied+1, first); first > 0 && i <= last; i++ {
		var entry raft.Log
		if err := s.GetLog(i, &entry); err != nil {
			return err
		}
		s.gaps.add(&entry)
	}
	return nil
}

// Close closes both parts.
func (s *logStore) Close() error { return errors.Join(s.entries.Close(), s.promises.Close()) }

// FirstIndex is 0 when there are no entries.
func (s *logStore) FirstIndex() (uint64, error) { return s.entries.FirstIndex() }

// LastIndex is 0 when there are no entries.
func (s *logStore) LastIndex() (uint64, error) { return s.entries.LastIndex() }

// GetLog reads and checks one entry.
func (s *logStore) GetLog(index uint64, entry *raft.Log) error {
	defer s.time("read", time.Now())
	err := s.entries.GetLog(index, entry)
	switch before := s.before.Load(); {
	case errors.Is(err, raft.ErrLogNotFound) && before != nil && before.Index == index:
		*entry = *before
		return nil
	case errors.Is(err, raft.ErrLogNotFound), errors.Is(err, bolterrors.ErrDatabaseNotOpen), errors.Is(err, wal.ErrClosed):
		return err
	case err != nil:
		return s.fatal(fmt.Errorf("%w: entry %d does not decode: %w", ErrLogDamaged, index, err))
	}
	if err := openEntry(index, entry); err != nil {
		return s.fatal(err)
	}
	return nil
}

// fatal stops the node, and ends raft's goroutine: raft would panic over a log
// that it cannot read or a term that it cannot store. Before raft runs, it returns
// the error.
func (s *logStore) fatal(err error) error {
	if halt := s.halt.Load(); halt != nil {
		(*halt)(err)
		runtime.Goexit()
	}
	return err
}

// openEntry checks an entry as it was stored and takes the checksum off.
func openEntry(index uint64, entry *raft.Log) error {
	n := len(entry.Extensions) - crcSize
	if n < 0 || entry.Index != index {
		return fmt.Errorf("%w: entry %d is not what its place says", ErrLogDamaged, index)
	}
	sum := entry.Extensions[n:]
	if entry.Extensions = entry.Extensions[:n:n]; n == 0 {
		entry.Extensions = nil
	}
	if entryCRC(entry) != binary.BigEndian.Uint32(sum) {
		return fmt.Errorf("%w: checksum mismatch in entry %d", ErrLogDamaged, index)
	}
	return nil
}

func entryCRC(entry *raft.Log) uint32 {
	var head [33]byte
	binary.BigEndian.PutUint64(head[0:], entry.Index)
	binary.BigEndian.PutUint64(head[8:], entry.Term)
	binary.BigEndian.PutUint64(head[16:], uint64(entry.AppendedAt.UnixNano()))
	binary.BigEndian.PutUint64(head[24:], uint64(len(entry.Data)))
	head[32] = byte(entry.Type)
	crc := crc32.Checksum(head[:], castagnoli)
	crc = crc32.Update(crc, castagnoli, entry.Data)
	return crc32.Update(crc, castagnoli, entry.Extensions)
}

func (s *logStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries in one durable write. They are shared with raft and
// not changed. Want of space is raft's to deal with: a leader steps down, a follower
// is sent the entries again. Only after raft has cut the log it must not fail: raft
// would go on to believe in the entries that it cut, and refuse all others for ever.
// After any other error the node stops: once a sync has
// failed, a later one that succeeds says nothing of what was written before.
func (s *logStore) StoreLogs(entries []*raft.Log) error {
	start := time.Now()
	s.pace.begin(start)
	defer func() { s.pace.end(time.Now()) }()
	defer s.time("append", start)
	if s.beforeAppend != nil {
		s.beforeAppend()
	}
	room := make([]raft.Log, len(entries))
	sealed := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		room[i] = *entry
		room[i].Extensions = binary.BigEndian.AppendUint32(entry.Extensions[:len(entry.Extensions):len(entry.Extensions)], entryCRC(entry))
		sealed[i] = &room[i]
	}
	// Noted before the write: an entry that failed to be written is never
	// committed under this index, or is stored again with its own type.
	for _, entry := range entries {
		s.gaps.add(entry)
	}
	err := s.entries.StoreLogs(sealed)
	if s.cut {
		err = s.insist(err, func() error { return s.entries.StoreLogs(sealed) })
	}
	s.cut = s.cut && err != nil
	s.before.Store(nil)
	if halt := s.halt.Load(); err != nil && !lacksSpace(err) && halt != nil {
		(*halt)(fmt.Errorf("raft log: append: %w", err))
	}
	return err
}

// insist is the outcome of a write after want of space has ended, or the node stops.
func (s *logStore) insist(err error, again func() error) error {
	for lacksSpace(err) && s.starved(err) {
		if err = again(); err == nil {
			s.starved(nil)
		}
	}
	return err
}

// lacksSpace says whether a write failed for want of space and left nothing behind.
// The error of a failed sync is not wrapped, and is another matter.
func lacksSpace(err error) bool {
	var write *fs.PathError
	return errors.As(err, &write) && (errors.Is(write, syscall.ENOSPC) || errors.Is(write, syscall.EDQUOT))
}

// IsMonotonic tells raft to delete the whole log when it has installed a snapshot.
// It would otherwise keep entries from before, which may never have been
// committed, and send them to others if it came to lead.
func (s *logStore) IsMonotonic() bool { return true }

// DeleteRange deletes the oldest entries up to last, or the newest from first on:
// what remains is without a hole whenever the process dies.
//
// Entries up to the newest snapshot, which is the newest durable record of the
// state, are only ever deleted as the oldest, those
// after it as the newest. When raft asks for the whole log after installing a
// snapshot, it still counts on what came after the snapshot: that is kept. It may have
// come from another leader. So that the present one can replace it, and need not send
// snapshot after snapshot, raft finds the snapshot's term in the log until the next append
// or term: whoever leads reads no such entry.
func (s *logStore) DeleteRange(first, last uint64) error {
	defer s.time("delete", time.Now())
	snapshot, err := newestSnapshot(s.snapshots)
	if err != nil {
		return err
	}
	if snapshot == nil || first > snapshot.Index {
		newest, err := s.LastIndex()
		if err != nil || last < newest {
			return err // a compaction, up to what is not durable in the state yet
		}
		return s.deleteNewest(first)
	}
	if last > snapshot.Index {
		s.before.Store(&raft.Log{Index: snapshot.Index, Term: snapshot.Term, Type: raft.LogNoop})
	}
	return s.deleteOldest(min(last, snapshot.Index))
}

// newestSnapshot is nil when there is none.
func newestSnapshot(snapshots raft.SnapshotStore) (*raft.SnapshotMeta, error) {
	list, err := snapshots.List()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func (s *logStore) deleteOldest(last uint64) error {
	s.gaps.dropTo(last)
	return s.entries.DeleteOldest(last)
}

func (s *logStore) deleteNewest(first uint64) error {
	err := s.entries.DeleteNewest(first)
	s.gaps.dropFrom(first)
	s.cut = true
	return err
}

func (s *logStore) time(op string, start time.Time) { s.timed(op, time.Since(start)) }

// Set stores a value with its checksum.
func (s *logStore) Set(key, value []byte) error {
	defer s.time("set", time.Now())
	sealed := append(make([]byte, 0, len(value)+crcSize), value...)
	return s.promises.Set(key, binary.BigEndian.AppendUint32(sealed, valueCRC(key, value)))
}

func valueCRC(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// Get reads and checks a value; one that was never set is ErrKeyNotFound, whose
// text raft knows.
func (s *logStore) Get(key []byte) ([]byte, error) {
	sealed, err := s.promises.Get(key)
	if err != nil {
		return nil, err
	}
	return openValue(key, sealed)
}

func openValue(key, sealed []byte) ([]byte, error) {
	n := len(sealed) - crcSize
	if n < 0 || valueCRC(key, sealed[:n]) != binary.BigEndian.Uint32(sealed[n:]) {
		return nil, fmt.Errorf("%w: checksum mismatch in %s", ErrLogDamaged, key)
	}
	return sealed[:n], nil
}

// SetUint64 stores a number.
func (s *logStore) SetUint64(key []byte, value uint64) error {
	switch string(key) {
	case string(keyCurrentTerm):
		return s.keepTerm(value)
	case string(keyLastVoteTerm):
		s.sawTerm(value)
	}
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value)) // a vote that is not stored is not given
}

// keepTerm stores a term, or the later one that the node has been in already: see
// sawTerm. After a restart it must not be in the older one.
func (s *logStore) keepTerm(term uint64) error {
	s.sawTerm(term)
	s.before.Store(nil)
	s.keeping <- struct{}{}
	defer func() { <-s.keeping }()
	key, sealed := keyCurrentTerm, binary.BigEndian.AppendUint64(nil, s.term.Load())
	err := s.insist(s.Set(key, sealed), func() error { return s.Set(key, sealed) })
	if lacksSpace(err) {
		runtime.Goexit() // the node stops, and raft would panic
	}
	if err != nil {
		return s.fatal(fmt.Errorf("raft term: %w", err))
	}
	return nil
}

// GetUint64 reads a number.
func (s *logStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: %s is not a number", ErrLogDamaged, key)
	}
	return binary.BigEndian.Uint64(value), nil
}

// sawTerm notes a term before it is stored, and so before any vote in it is given.
// raft's own CurrentTerm is not enough to answer a term question: raft handles
// heartbeats beside its main loop, and one of an older term can set the term back
// for a moment.
func (s *logStore) sawTerm(term uint64) {
	for {
		old := s.term.Load()
		if term <= old || s.term.CompareAndSwap(old, term) {
			return
		}
	}
}
