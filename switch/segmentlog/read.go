package segmentlog

import (
	"fmt"
	"path/filepath"
	"sort"

	switchover "github.com/cpnode/cpnode/switch"
)

// Read returns whole, checked batches in order, the first of which owns offset: those with
// NextOffset() <= limit, at least one, and more while maxBytes of payload allow and the
// segment goes on. None at limit or the end. What is returned is the caller's.
//
// Errors: switchover.ErrNotLocal below the local log start, switchover.ErrBeyondEnd above
// the end, ErrCorrupt, ErrStorage, ErrClosed.
func (l *Log) Read(offset, limit int64, maxBytes int) ([]switchover.Batch, error) {
	p, err := l.find(offset)
	if err != nil || p.seg == nil {
		return nil, err
	}
	return l.finishRead(p, offset, limit, maxBytes)
}

// finishRead is Read for a place that was found; it begins anew if what was there is gone.
func (l *Log) finishRead(p place, offset, limit int64, maxBytes int) ([]switchover.Batch, error) {
	batches, err := p.read(offset, limit, maxBytes)
	if l.unchanged(p) {
		return batches, err
	}
	return l.Read(offset, limit, maxBytes)
}

// find is the place to read offset at; one without a segment for the end of the log.
func (l *Log) find(offset int64) (place, error) {
	for {
		p, indexed, err := l.look(offset)
		if err != nil || p.seg == nil || indexed {
			return p, err
		}
		l.index(p)
	}
}

// look is find for a segment that has its index; of another it is the whole file.
func (l *Log) look(offset int64) (p place, indexed bool, err error) {
	l.state.RLock()
	defer l.state.RUnlock()
	if err := l.closedError(); err != nil {
		return place{}, false, err
	}
	switch end := l.active().next; {
	case offset < l.localStart:
		return place{}, false, fmt.Errorf("%s: offset %d, local log start %d: %w", l.name, offset, l.localStart, switchover.ErrNotLocal)
	case offset > end:
		return place{}, false, fmt.Errorf("%s: offset %d, end %d: %w", l.name, offset, end, switchover.ErrBeyondEnd)
	case offset == end:
		return place{}, false, nil
	}
	s := l.owner(offset)
	return l.placeIn(s, s.floor(offset)), s.indexed, nil
}

// owner is the segment that holds offset, which is at least the local log start and below
// the end. Log.state is held.
func (l *Log) owner(offset int64) *segment {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].next > offset })
	return l.segments[i]
}

// placeIn is the segment from a position on. Log.state is held.
func (l *Log) placeIn(s *segment, from int64) place {
	return place{seg: s, name: filepath.Join(l.name, segmentName(s.base)), from: from, to: s.size, end: s.next, generation: l.generation}
}

// index builds the index of a place that is a whole segment.
func (l *Log) index(p place) {
	index := p.scanIndex()
	l.state.Lock()
	defer l.state.Unlock()
	if l.generation == p.generation {
		p.seg.index, p.seg.indexed = index, true
	}
}

// unchanged is whether nothing that readers may have seen is gone since find.
func (l *Log) unchanged(p place) bool {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.generation == p.generation
}
