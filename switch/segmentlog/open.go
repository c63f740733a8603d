package segmentlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Open opens the log in dir, which is made if it does not exist; a new log begins at
// offset 0. The end of the newest segment is checked, and cut where it is torn if that was
// never flushed; damage below what was flushed is ErrCorrupt. Older segments, which are
// flushed before the next one is begun, are checked as they are read. What an interrupted
// change left over is removed.
func Open(dir string, config Config) (*Log, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	l := &Log{config: config, name: dir}
	err := l.openDirectory()
	if err == nil {
		err = l.load()
	}
	if err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	return l, nil
}

func (l *Log) openDirectory() (err error) {
	if err = makeDirectory(l.name); err != nil {
		return storage("make", l.name, err)
	}
	if l.root, err = os.OpenRoot(l.name); err == nil {
		l.dir, err = l.root.Open(".")
	}
	return storage("open", l.name, err)
}

// makeDirectory makes dir and what is missing above it, each on disk before what it holds.
func makeDirectory(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDirectory(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(dir))
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// abandon closes what a failed Open opened.
func (l *Log) abandon() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.file.Close())
	}
	if l.dir != nil {
		errs = append(errs, l.dir.Close())
	}
	if l.root != nil {
		errs = append(errs, l.root.Close())
	}
	return errors.Join(errs...)
}

// load reads what the directory holds. Nobody else sees the log yet.
func (l *Log) load() error {
	bases, err := l.listSegments()
	if err != nil {
		return err
	}
	c, err := l.readCheckpoint()
	if err != nil {
		return err
	}
	switch {
	case c != nil:
		l.restore(*c)
	case len(bases) > 0:
		return corrupt(l.path(checkpointName), 0, "missing beside segments")
	default:
		if err := l.save(); err != nil { // before the first segment
			return err
		}
	}
	if bases, err = l.removeLeftovers(bases); err != nil {
		return err
	}
	if err := l.checkFirst(bases); err != nil {
		return err
	}
	if err := l.openSegments(bases); err != nil {
		return err
	}
	return l.recover()
}

// listSegments are the base offsets of the segments, ascending.
func (l *Log) listSegments() ([]int64, error) {
	entries, err := fs.ReadDir(l.root.FS(), ".")
	if err != nil {
		return nil, storage("list", l.name, err)
	}
	var bases []int64
	for _, entry := range entries {
		if base, ok := parseSegmentName(entry.Name()); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// removeLeftovers finishes a deletion: it removes the segments wholly below the local log
// start, and returns the others.
func (l *Log) removeLeftovers(bases []int64) ([]int64, error) {
	for len(bases) > 1 && bases[1] <= l.localStart {
		if err := l.root.Remove(segmentName(bases[0])); err != nil {
			return nil, storage("remove", l.path(segmentName(bases[0])), err)
		}
		bases = bases[1:]
	}
	return bases, nil
}

// checkFirst sees whether the segments begin where they should.
func (l *Log) checkFirst(bases []int64) error {
	if len(bases) > 0 && bases[0] > l.localStart {
		return corrupt(l.path(segmentName(bases[0])), 0, fmt.Sprintf("the log begins at offset %d, and no segment holds it", l.localStart))
	}
	return nil
}

// openSegments opens the files. With none, the log is new, or was emptied to begin
// elsewhere and no more.
func (l *Log) openSegments(bases []int64) error {
	if len(bases) == 0 {
		s, err := l.createSegment(l.localStart)
		if err == nil {
			l.segments = []*segment{s}
		}
		return err
	}
	for i, base := range bases {
		name := segmentName(base)
		f, err := l.root.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return storage("open", l.path(name), err)
		}
		s := &segment{base: base, file: f}
		l.segments = append(l.segments, s)
		info, err := f.Stat()
		if err != nil {
			return storage("stat", l.path(name), err)
		}
		s.size = info.Size()
		if i+1 < len(bases) {
			s.next = bases[i+1]
		}
	}
	return nil
}

// recover reads the active segment, cuts a torn end, and sets right what the checkpoint
// says of records that are no more.
func (l *Log) recover() error {
	s := l.active()
	l.flushed = max(l.flushed, s.base)
	if err := l.readActive(s); err != nil {
		return err
	}
	l.epochs = l.epochs.within(l.logStart, s.next)
	l.highWatermark = min(l.highWatermark, s.next)
	return l.flush()
}

// readActive builds the index of the active segment and learns the epochs of its batches.
func (l *Log) readActive(s *segment) error {
	name, length := l.path(segmentName(s.base)), s.size
	r := NewReader(name, io.NewSectionReader(s.file, 0, length), 0)
	r.next = s.base
	s.next, s.size, s.index, s.indexed = s.base, 0, nil, true
	for {
		b, err := r.Next()
		if err != nil {
			return l.cutTorn(s, length, err)
		}
		known := l.epochs.before(b.BaseOffset + 1)
		if l.epochs, err = known.put(b.LeaderEpoch, b.BaseOffset); err != nil {
			return corrupt(name, s.size, err.Error())
		}
		s.add(b)
	}
}

// cutTorn ends the active segment where reading it ended with err, if nothing that was
// flushed lies behind. What is cut cannot come back with a later crash: it is synced.
func (l *Log) cutTorn(s *segment, length int64, err error) error {
	name, clean, lost := l.path(segmentName(s.base)), errors.Is(err, io.EOF), s.next < l.flushed
	switch {
	case clean && lost:
		return corrupt(name, s.size, fmt.Sprintf("the file ends before offset %d, which was flushed", l.flushed))
	case clean:
		return nil
	case lost || !errors.Is(err, ErrCorrupt):
		return err
	}
	l.cut = length - s.size
	return storage("cut", name, errors.Join(s.file.Truncate(s.size), s.file.Sync()))
}

// createSegment makes the file of a segment that begins at base. Both it and its name are
// on disk when it returns.
func (l *Log) createSegment(base int64) (*segment, error) {
	name := segmentName(base)
	f, err := l.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, storage("create", l.path(name), err)
	}
	if err := l.dir.Sync(); err != nil {
		return nil, errors.Join(storage("sync", l.path(name), err), f.Close())
	}
	return &segment{base: base, next: base, file: f, indexed: true}, nil
}
