package segmentlog

import (
	"errors"
	"fmt"

	switchover "github.com/cpnode/cpnode/switch"
)

// Append gives a classic batch the next offsets and writes it, for a leader. It returns the
// first of them. The batch is on disk for good after the next Flush or Roll. Errors:
// ErrSealed, ErrInvalidBatch, ErrStorage, ErrClosed; after each the log is as before.
func (l *Log) Append(epoch, records int32, payload []byte) (int64, error) {
	l.write.Lock()
	defer l.write.Unlock()
	if l.sealed {
		return 0, fmt.Errorf("%s: %w", l.name, switchover.ErrSealed)
	}
	b := switchover.Batch{
		BaseOffset: l.active().next, Records: records, LeaderEpoch: epoch, Kind: switchover.Classic, Payload: payload,
	}
	if err := l.append([]switchover.Batch{b}); err != nil {
		return 0, err
	}
	return b.BaseOffset, nil
}

// AppendBatches writes batches that have offsets, all or none: fetched from a leader, or
// consolidated from diskless storage. The first begins at the end of the log, each at the
// end of the one before. A sealed log takes them. Errors: as for Append.
func (l *Log) AppendBatches(batches []switchover.Batch) error {
	l.write.Lock()
	defer l.write.Unlock()
	return l.append(batches)
}

// append writes batches to one segment. Log.write is held.
func (l *Log) append(batches []switchover.Batch) error {
	if err := l.usable(); err != nil {
		return err
	}
	grown, err := l.follow(batches)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	var frames []byte
	for _, b := range batches {
		frames = AppendFrame(frames, b)
	}
	if s := l.active(); s.size+int64(len(frames)) > l.config.SegmentBytes {
		if err := l.roll(); err != nil {
			return err
		}
	}
	if err := l.writeFrames(l.active(), frames); err != nil {
		return err
	}
	l.state.Lock()
	defer l.state.Unlock()
	l.epochs = grown
	for _, b := range batches {
		l.active().add(b)
	}
	return nil
}

// follow checks that batches continue the log, and returns the epochs that it then has.
func (l *Log) follow(batches []switchover.Batch) (epochs, error) {
	grown, next := l.epochs, l.active().next
	for _, b := range batches {
		err := checkBatch(b)
		if err == nil && b.BaseOffset != next {
			err = invalid("base offset %d where %d is next", b.BaseOffset, next)
		}
		if err == nil {
			grown, err = grown.put(b.LeaderEpoch, b.BaseOffset)
		}
		if err != nil {
			return nil, err
		}
		next = b.NextOffset()
	}
	return grown, nil
}

// writeFrames writes behind the segment's end. If that fails, half a write does not stay: a
// later, shorter one would leave its rest, which might be read as batches.
func (l *Log) writeFrames(s *segment, frames []byte) error {
	name := l.path(segmentName(s.base))
	_, err := s.file.WriteAt(frames, s.size)
	if err == nil {
		return nil
	}
	err = storage("append to", name, err)
	if undo := s.file.Truncate(s.size); undo != nil {
		return l.fail(errors.Join(err, storage("cut", name, undo)))
	}
	return err
}

// Flush puts all that was appended on disk for good, and the offsets and epochs as they
// are. Errors: ErrStorage, ErrClosed.
func (l *Log) Flush() error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.flush()
}

// flush is Flush with Log.write held. After a sync that failed, nobody knows what is on
// disk, and another sync would not tell.
func (l *Log) flush() error {
	if s := l.active(); l.flushed < s.next {
		if err := s.file.Sync(); err != nil {
			return l.fail(storage("sync", l.path(segmentName(s.base)), err))
		}
		l.flushed = s.next
	}
	return l.save()
}

// Roll flushes the log and begins a new active segment at its end. An empty active segment
// stays. Errors: ErrStorage, ErrClosed.
func (l *Log) Roll() error {
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.roll()
}

// roll is Roll with Log.write held. The epochs are on disk before the new segment, since
// only the active segment is read for them when the log is opened.
func (l *Log) roll() error {
	end := l.active().next
	if err := l.flush(); err != nil || l.active().size == 0 {
		return err
	}
	s, err := l.createSegment(end)
	if err != nil {
		return l.fail(err)
	}
	l.state.Lock()
	defer l.state.Unlock()
	l.segments = append(l.segments, s)
	return nil
}
