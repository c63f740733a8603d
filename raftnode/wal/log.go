package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// Errors of a log.
var (
	// ErrDamaged: the files do not hold what was written and acknowledged.
	ErrDamaged = errors.New("segments of the raft log are damaged")
	// ErrListLost: there are files with entries, and no list that has them, or an old one.
	ErrListLost = errors.New("the list of the raft log's segments is lost")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("raft log is closed")
)

// Options are the zero value for a log that is written to.
type Options struct {
	// ReadOnly changes nothing on disk; the methods that write are not to be called.
	ReadOnly bool
	// SegmentBytes is the size from which on a segment is full; 0 is 16 MiB.
	SegmentBytes uint32
}

const (
	defaultSegmentBytes = 16 << 20
	// MaxEntryBytes bounds data and extensions of one entry.
	MaxEntryBytes = raftwal.MaxEntrySize - entryHead
)

// Log is the entries of a raft log, without gaps. Reads and one append may run at
// the same time; all methods may be called from several goroutines.
//
// What StoreLogs has returned for is there when the log is opened again, or Open says
// that it is damaged, with one exception: damage after a crash that touches nothing
// but the last append looks like a crash in the middle of that append. After Close,
// and before the last change of the list of segments, not even that is taken for one.
type Log struct {
	dir     string
	list    List
	options Options
	filer   *raftwal.Filer

	changing sync.Mutex // held by what writes
	nextID   uint64
	opened   *file  // that filer opened last for writing
	stray    string // file that was made for the list and is not in it
	broken   error  // after which what is on disk is not known

	mu       sync.RWMutex // guards segments and keeps their files open
	segments []*segment   // ascending; empty once closed
}

// Open opens the log whose list of segments is kept in list, with the files in dir;
// a list that was never saved is that of a new log. Errors: ErrDamaged,
// ErrListLost, or of the files.
func Open(dir string, list List, o Options) (*Log, error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	c, err := load(list)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, list: list, options: o, nextID: c.NextID}
	l.filer = raftwal.NewFiler(dir, trackedFiles{files{readOnly: o.ReadOnly}, &l.opened})
	if len(c.Segments) == 0 {
		err = l.begin()
	} else {
		err = l.openSegments(c.Segments)
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// trackedFiles notes the file that was opened last for writing.
type trackedFiles struct {
	files
	opened **file
}

func (v trackedFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	return v.note(v.files.Create(dir, name, size))
}

func (v trackedFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	return v.note(v.files.OpenWriter(dir, name))
}

func (v trackedFiles) note(f types.WritableFile, err error) (types.WritableFile, error) {
	if err == nil {
		*v.opened = f.(*file)
	}
	return f, err
}

// begin makes a log without entries, unless there are files that hold some: then it
// is the list that is lost.
func (l *Log) begin() error {
	if l.options.ReadOnly {
		return nil
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	names, err := files{}.ListDir(l.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if used, err := hasHead(filepath.Join(l.dir, name)); err != nil || used {
			return errors.Join(err, fmt.Errorf("%w: %s has entries", ErrListLost, name))
		}
	}
	return l.follow(nil, 1)
}

func hasHead(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	var first [1]byte
	_, err = f.ReadAt(first[:], 0)
	return err == nil && first[0] != 0, f.Close()
}

// openSegments opens all, and the last one for appends, which it has checked.
func (l *Log) openSegments(segments []*segment) error {
	for _, s := range segments[:len(segments)-1] {
		reader, err := l.filer.Open(s.info())
		if err != nil {
			return s.damaged("%v", err)
		}
		s.reader = reader
		l.segments = append(l.segments, s)
	}
	if err := l.openTail(segments[len(segments)-1]); err != nil {
		return err
	}
	others, err := l.others()
	if err != nil || l.options.ReadOnly {
		return err
	}
	for _, name := range others {
		err = errors.Join(err, os.Remove(filepath.Join(l.dir, name)))
	}
	return err
}

func (l *Log) openTail(s *segment) error {
	data, err := s.read(l.dir)
	if err != nil {
		return err
	}
	found, err := s.scan(data)
	if err != nil {
		return err
	}
	if found.torn && !l.options.ReadOnly {
		if err := erase(filepath.Join(l.dir, s.name()), found.end); err != nil {
			return err
		}
	}
	if s.writer, err = l.filer.RecoverTail(s.info()); err != nil {
		return s.damaged("%v", err)
	}
	s.reader, s.file = s.writer, l.opened
	s.file.written, s.file.synced = found.end, found.end
	l.segments = append(l.segments, s)
	if n := uint64(len(found.offsets)); n > 0 && s.end() != s.First+n-1 || n == 0 && s.end() != 0 {
		return s.damaged("%d entries are whole, and the last is said to be %d", n, s.end())
	}
	return nil
}

// others are the files that a crash left between a change of the list and one of the
// directory. One that was made after the list has no entries yet, or the list is an old
// one.
func (l *Log) others() ([]string, error) {
	others, err := files{}.ListDir(l.dir)
	if err != nil {
		return nil, err
	}
	for _, s := range l.segments {
		others = slices.DeleteFunc(others, func(name string) bool { return name == s.name() })
	}
	for _, name := range others {
		later, err := l.later(name)
		if err == nil && later {
			err = fmt.Errorf("%w: an old one is there, without %s", ErrListLost, name)
		}
		if err != nil {
			return nil, err
		}
	}
	return others, nil
}

// later says whether a file has entries, and was made after the list.
func (l *Log) later(name string) (bool, error) {
	var first, id uint64
	if _, err := fmt.Sscanf(name, "%d-%x"+suffix, &first, &id); err != nil || id < l.nextID {
		return false, nil // not ours, or of an earlier list
	}
	return hasHead(filepath.Join(l.dir, name))
}

// bounds are the indexes of the first and the last entry, both 0 without any.
func (l *Log) bounds() (first, last uint64, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.segments)
	switch {
	case n == 0 && !l.options.ReadOnly:
		return 0, 0, ErrClosed
	case n == 0:
		return 0, 0, nil
	}
	if last = l.segments[n-1].end(); last == 0 && n > 1 {
		last = l.segments[n-2].Last
	}
	if last == 0 {
		return 0, 0, nil
	}
	return l.segments[0].Min, last, nil
}

// FirstIndex is 0 when there are no entries.
func (l *Log) FirstIndex() (uint64, error) {
	first, _, err := l.bounds()
	return first, err
}

// LastIndex is 0 when there are no entries.
func (l *Log) LastIndex() (uint64, error) {
	_, last, err := l.bounds()
	return last, err
}

// GetLog reads one entry. Errors: raft.ErrLogNotFound, ErrClosed, ErrDamaged.
func (l *Log) GetLog(index uint64, entry *raft.Log) error {
	first, last, err := l.bounds()
	if err != nil {
		return err
	}
	if first == 0 || index < first || index > last {
		return raft.ErrLogNotFound
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].First > index })
	if n == 0 || index < l.segments[0].Min {
		return raft.ErrLogNotFound // deleted a moment ago
	}
	s := l.segments[n-1]
	if index > s.end() {
		return raft.ErrLogNotFound
	}
	return s.get(index, entry)
}

// Check reads all segments, deleted entries in them included.
func (l *Log) Check() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.segments {
		data, err := s.read(l.dir)
		if err != nil {
			return err
		}
		if _, err := s.scan(data); err != nil {
			return err
		}
	}
	return nil
}

// Bytes is the size of the files.
func Bytes(dir string) (n int64, err error) {
	names, err := files{}.ListDir(dir)
	for _, name := range names {
		info, statErr := os.Stat(filepath.Join(dir, name))
		if err = errors.Join(err, statErr); statErr == nil {
			n += info.Size()
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return n, err
}

// Close notes how much is durable and closes the files.
func (l *Log) Close() error {
	l.changing.Lock()
	defer l.changing.Unlock()
	var err error
	if n := len(l.segments); n > 0 && !l.options.ReadOnly && l.segments[n-1].Durable != l.segments[n-1].file.synced {
		err = l.save(l.segments, l.nextID)
	}
	return errors.Join(err, l.release())
}

func (l *Log) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, s := range l.segments {
		err = errors.Join(err, s.reader.Close())
	}
	l.segments = nil
	return err
}
