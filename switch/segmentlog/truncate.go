package segmentlog

import (
	"errors"
	"slices"

	switchover "github.com/cpnode/cpnode/switch"
)

// Truncate removes the records from offset on, and the epochs that began there. A batch
// that offset is inside of goes whole. An offset at or above the end changes nothing; one
// below the local log start empties the log, which goes on at offset. What is removed does
// not come back after a crash. Errors: ErrStorage, ErrCorrupt, ErrClosed.
func (l *Log) Truncate(offset int64) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if offset = max(offset, 0); offset >= l.active().next {
		return nil
	}
	if offset < l.localStart {
		return l.restartAt(offset, min(l.logStart, offset), l.epochs)
	}
	p, err := l.boundary(offset)
	if err != nil {
		return err
	}
	return l.truncate(p)
}

// boundary is where the batch that owns offset begins: from is its position, end its offset.
func (l *Log) boundary(offset int64) (place, error) {
	l.state.RLock()
	s := l.owner(offset)
	p := l.placeIn(s, s.floor(offset))
	l.state.RUnlock()
	from, base, err := p.seek(offset)
	p.from, p.end = from, base
	return p, err
}

// truncate ends the log where p begins. Log.write is held. The checkpoint comes first: it
// must not promise records that a crash finds removed. Then the files go from the newest on,
// so that a crash leaves no hole.
func (l *Log) truncate(p place) error {
	l.flushed = min(l.flushed, p.end)
	gone := l.publishEnd(p)
	err := l.save()
	if err == nil {
		err = l.removeFiles(gone)
	}
	if err == nil {
		err = storage("truncate", p.name, errors.Join(p.seg.file.Truncate(p.from), p.seg.file.Sync(), l.dir.Sync()))
	}
	if err != nil {
		return l.fail(err)
	}
	l.flushed = p.end
	return nil
}

// publishEnd lets readers see the new end, and returns the segments behind it.
func (l *Log) publishEnd(p place) []*segment {
	l.state.Lock()
	defer l.state.Unlock()
	keep := slices.Index(l.segments, p.seg) + 1
	gone := slices.Clone(l.segments[keep:])
	l.segments = l.segments[:keep:keep]
	p.seg.cut(p.end, p.from)
	l.epochs = l.epochs.before(p.end)
	l.logStart, l.localStart = min(l.logStart, p.end), min(l.localStart, p.end)
	l.highWatermark = min(l.highWatermark, p.end)
	l.generation++
	return gone
}

// removeFiles deletes the files of segments that the log does not have any more, the newest
// first.
func (l *Log) removeFiles(gone []*segment) error {
	for _, s := range slices.Backward(gone) {
		if err := l.removeFile(s); err != nil {
			return err
		}
	}
	return nil
}

// RestartAt drops all local records: the log goes on at offset, with what it is told of the
// part before, which is elsewhere. Epochs that begin at offset or later are left out, as
// they begin with their first record. A crash leaves the log as before, shorter, or as it
// is to be. Errors: ErrStorage, ErrInvalidBatch for a log start above offset, ErrClosed.
func (l *Log) RestartAt(offset, logStart int64, epochStarts []switchover.EpochStart) error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.restartAt(offset, logStart, slices.Clone(epochStarts))
}

// restartAt is RestartAt with Log.write held. It first takes back the promise of what was
// flushed, and empties the log; only a checkpoint without segments may begin elsewhere.
func (l *Log) restartAt(offset, logStart int64, starts epochs) error {
	if logStart > offset || logStart < 0 {
		return invalid("log start %d, to restart at %d", logStart, offset)
	}
	l.flushed = min(l.flushed, l.localStart)
	err := l.save()
	if err == nil {
		err = l.empty(offset, logStart, starts)
	}
	if err != nil {
		return l.fail(err)
	}
	return nil
}

func (l *Log) empty(offset, logStart int64, starts epochs) error {
	l.state.Lock()
	gone := slices.Concat(l.doomed, l.segments)
	l.doomed = nil
	l.segments = []*segment{{base: offset, next: offset, indexed: true}}
	l.logStart, l.localStart, l.highWatermark = logStart, offset, offset
	l.epochs = starts.within(logStart, offset)
	l.generation++
	l.state.Unlock()
	if err := l.removeFiles(gone); err != nil {
		return err
	}
	if err := l.dir.Sync(); err != nil {
		return storage("sync", l.path("."), err)
	}
	l.flushed = offset
	if err := l.save(); err != nil {
		return err
	}
	s, err := l.createSegment(offset)
	if err != nil {
		return err
	}
	l.state.Lock()
	defer l.state.Unlock()
	l.segments = []*segment{s}
	return nil
}
