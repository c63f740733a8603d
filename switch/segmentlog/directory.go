package segmentlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	switchover "github.com/cpnode/cpnode/switch"
)

// SegmentFile is a rolled segment, open to be copied. It stays readable when the log
// deletes the segment. It is to be closed.
type SegmentFile struct {
	io.Reader
	switchover.Segment
	// Epochs are those of the segment's records, the first of them beginning at its base.
	Epochs []switchover.EpochStart
	file   *os.File
}

// Close closes the file.
func (f *SegmentFile) Close() error { return f.file.Close() }

// OpenSegment opens the segment whose first record has the offset base, to be uploaded. One
// that the log does not have, or that is active, is switchover.ErrNotLocal. The records must
// be below the high watermark: others may be truncated while they are read. Other errors:
// ErrStorage, ErrClosed.
func (l *Log) OpenSegment(base int64) (*SegmentFile, error) {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		if s.base == base {
			return l.openSegment(s)
		}
	}
	return nil, fmt.Errorf("%s: no rolled segment at %d: %w", l.name, base, switchover.ErrNotLocal)
}

func (l *Log) openSegment(s *segment) (*SegmentFile, error) {
	f, err := l.root.Open(segmentName(s.base))
	if err != nil {
		return nil, storage("open", l.path(segmentName(s.base)), err)
	}
	return &SegmentFile{
		Reader:  f,
		Segment: switchover.Segment{Base: s.base, End: s.next, Bytes: s.size},
		Epochs:  l.epochs.within(s.base, s.next),
		file:    f,
	}, nil
}

// Rename gives the directory another name on the same file system, while the log stays
// open: how a future log takes the place of the one it was filled from. dir must not exist,
// or be empty. Errors: ErrStorage, after which the log has the name that Dir says; ErrClosed.
func (l *Log) Rename(dir string) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	old := l.name
	if err := os.Rename(old, dir); err != nil {
		return storage("rename", old, err)
	}
	l.state.Lock()
	l.name = dir
	l.state.Unlock()
	err := errors.Join(syncDirectory(filepath.Dir(dir)), syncDirectory(filepath.Dir(old)))
	return storage("rename", old, err)
}

// Remove closes the log and deletes its directory. It may be repeated. The error is
// ErrStorage.
func (l *Log) Remove() error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); !errors.Is(err, ErrClosed) {
		if err := l.closeFiles(); err != nil {
			return storage("close", l.name, err)
		}
	}
	if err := os.RemoveAll(l.name); err != nil {
		return storage("remove", l.name, err)
	}
	return storage("remove", l.name, syncDirectory(filepath.Dir(l.name)))
}
