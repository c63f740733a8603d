package segmentlog

import (
	"errors"
	"fmt"
	"io/fs"

	switchover "github.com/cpnode/cpnode/switch"
)

// DeleteBelow deletes every segment with End <= offset but the active one. First the local
// log start advances, on disk too, then the files go, the oldest first. Log start and
// epochs stay; the high watermark is raised to the local log start, since only what was
// committed may be deleted, even if this replica has not heard so. After ErrStorage it may be
// repeated; after a crash Open finishes what was begun. Errors: ErrStorage, ErrClosed.
func (l *Log) DeleteBelow(offset int64) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.doom(offset); len(l.doomed) == 0 {
		return nil // and nothing to put on disk: the gate asks again and again
	}
	if err := l.save(); err != nil {
		return err
	}
	if l.config.BeforeUnlink != nil {
		l.config.BeforeUnlink()
	}
	return l.unlink()
}

// doom takes segments out of the log, so that no read finds them.
func (l *Log) doom(offset int64) {
	l.state.Lock()
	defer l.state.Unlock()
	n := 0
	for n < len(l.segments)-1 && l.segments[n].next <= offset {
		n++
	}
	if n == 0 {
		return
	}
	l.doomed = append(l.doomed, l.segments[:n]...)
	l.segments = l.segments[n:]
	l.localStart = max(l.localStart, l.segments[0].base)
	l.highWatermark = max(l.highWatermark, l.localStart)
	l.generation++
}

// unlink deletes the files of the doomed segments.
func (l *Log) unlink() error {
	for len(l.doomed) > 0 {
		if err := l.removeFile(l.doomed[0]); err != nil {
			return err
		}
		l.doomed = l.doomed[1:]
	}
	return nil
}

// removeFile deletes the file of a segment that the log does not have any more. One that is
// gone already is fine. A read under way keeps its bytes.
func (l *Log) removeFile(s *segment) error {
	name := segmentName(s.base)
	if err := l.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage("remove", l.path(name), err)
	}
	_ = s.file.Close() // nothing of it is wanted any more
	return nil
}

// SetLogStart moves the log start up to offset, and the local log start if it is below: the
// records before are wanted no more. Files go with the next DeleteBelow. A lower offset is
// ignored; one above the high watermark is switchover.ErrBeyondEnd. Other errors:
// ErrStorage, ErrClosed.
func (l *Log) SetLogStart(offset int64) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	switch {
	case offset > l.HighWatermark():
		return fmt.Errorf("%s: log start %d, above the high watermark: %w", l.Dir(), offset, switchover.ErrBeyondEnd)
	case offset > l.flushed:
		if err := l.flush(); err != nil { // or a crash could leave an end below the start
			return err
		}
	}
	l.raiseLogStart(offset)
	return l.save()
}

func (l *Log) raiseLogStart(offset int64) {
	l.state.Lock()
	defer l.state.Unlock()
	if offset <= l.logStart {
		return
	}
	l.logStart, l.localStart = offset, max(l.localStart, offset)
	l.epochs = l.epochs.within(offset, l.active().next)
	l.generation++
}
