package segmentlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	switchover "github.com/cpnode/cpnode/switch"
)

// Config is what Open is given beside the directory.
type Config struct {
	// SegmentBytes is the size in bytes above which a segment does not grow: the append that
	// would make it larger begins a new one. One append is never divided.
	SegmentBytes int64
	// BeforeUnlink, if not nil, is called by DeleteBelow when the local log start has advanced
	// on disk and no file has vanished yet. For tests; it may read the log and not change it.
	BeforeUnlink func()
}

// DefaultConfig is what a broker runs with.
func DefaultConfig() Config { return Config{SegmentBytes: 256 << 20} }

// Validate names the field that is wrong.
func (c Config) Validate() error {
	if c.SegmentBytes < 1 {
		return fmt.Errorf("SegmentBytes: %d, must be positive", c.SegmentBytes)
	}
	return nil
}

// Log is the log of one partition in a directory. See the package for its offsets and its
// locks.
type Log struct {
	config Config
	root   *os.Root // what the directory holds, also after Rename
	dir    *os.File // the directory itself, to sync it

	write   sync.Mutex
	flushed int64      // records below are on disk for good
	saved   []byte     // the checkpoint as it is on disk
	doomed  []*segment // out of the log, their files still to be deleted
	broken  error      // disk and memory may differ: nothing is changed any more
	cut     int64      // bytes of the torn end that Open removed

	state         sync.RWMutex
	name          string     // the directory's path
	segments      []*segment // in offset order, at least one; the last is active
	logStart      int64
	localStart    int64
	highWatermark int64
	epochs        epochs
	sealed        bool
	closed        bool
	generation    uint64 // of what readers may have seen and is gone
}

var _ switchover.LocalLog = (*Log)(nil)

func (l *Log) active() *segment { return l.segments[len(l.segments)-1] }

// LogStartOffset is the first offset that the partition still has anywhere.
func (l *Log) LogStartOffset() int64 {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.logStart
}

// LocalLogStartOffset is the first offset that this log has.
func (l *Log) LocalLogStartOffset() int64 {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.localStart
}

// EndOffset is the offset that the next record gets.
func (l *Log) EndOffset() int64 {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.active().next
}

// HighWatermark is the offset below which consumers read. After a crash it may be older
// than it was: it is put on disk with each Flush, Roll and Close, as all other offsets.
func (l *Log) HighWatermark() int64 {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.highWatermark
}

// SetHighWatermark raises the high watermark to offset, at most to the end. A lower offset
// is ignored. The error is ErrClosed.
func (l *Log) SetHighWatermark(offset int64) error {
	l.state.Lock()
	defer l.state.Unlock()
	l.highWatermark = max(l.highWatermark, min(offset, l.active().next))
	return l.closedError()
}

// Epochs is the leader-epoch cache in offset order, from the log start on. It is the
// caller's.
func (l *Log) Epochs() []switchover.EpochStart {
	l.state.RLock()
	defer l.state.RUnlock()
	return slices.Clone(l.epochs)
}

// EndOfEpoch is the largest epoch of this log that is not above the given one, and the
// offset behind its last record: what a follower whose last epoch is the given one truncates
// to. -1, -1 if the log ends with a lower epoch. If it begins with a higher one, the answer
// is the given epoch and the first offset that is known.
func (l *Log) EndOfEpoch(epoch int32) (int32, int64) {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.epochs.endOf(epoch, l.active().next)
}

// Segments are the files in offset order, the active one last.
func (l *Log) Segments() []switchover.Segment {
	l.state.RLock()
	defer l.state.RUnlock()
	all := make([]switchover.Segment, len(l.segments))
	for i, s := range l.segments {
		all[i] = switchover.Segment{Base: s.base, End: s.next, Bytes: s.size}
	}
	return all
}

// Seal makes Append fail with ErrSealed; when it returns, none is under way. It is not
// kept on disk, because the partition's registration says it again at each start. The
// error is ErrClosed.
func (l *Log) Seal() error { return l.setSealed(true) }

// Unseal lets Append work again. The error is ErrClosed.
func (l *Log) Unseal() error { return l.setSealed(false) }

func (l *Log) setSealed(sealed bool) error {
	l.write.Lock()
	defer l.write.Unlock()
	l.state.Lock()
	defer l.state.Unlock()
	l.sealed = sealed
	return l.closedError()
}

// CutBytes is how many bytes of a torn end Open removed.
func (l *Log) CutBytes() int64 { return l.cut }

// Dir is the path of the log's directory.
func (l *Log) Dir() string {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.name
}

// path is the full path of a file, for errors.
func (l *Log) path(name string) string { return filepath.Join(l.Dir(), name) }

// closedError is ErrClosed if the log is. Log.state is held.
func (l *Log) closedError() error {
	if l.closed {
		return fmt.Errorf("%s: %w", l.name, ErrClosed)
	}
	return nil
}

// usable is the error of every change to a log that is closed or broken. Log.write is held.
func (l *Log) usable() error {
	l.state.RLock()
	defer l.state.RUnlock()
	return errors.Join(l.closedError(), l.broken)
}

// fail keeps an error after which disk and memory may differ. Log.write is held.
func (l *Log) fail(err error) error {
	l.broken = err
	return err
}

// Close flushes the log and closes its files. A read under way ends with its records or
// ErrClosed. Closing again does nothing.
func (l *Log) Close() error {
	l.write.Lock()
	defer l.write.Unlock()
	err := l.usable()
	if err == nil {
		err = l.flush()
	}
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return errors.Join(err, l.closeFiles())
}

// closeFiles closes what is open. Log.write is held.
func (l *Log) closeFiles() error {
	l.state.Lock()
	defer l.state.Unlock()
	l.closed = true
	l.generation++
	var errs []error
	for _, s := range slices.Concat(l.segments, l.doomed) {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(append(errs, l.dir.Close(), l.root.Close())...)
}
