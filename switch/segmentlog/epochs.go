package segmentlog

import switchover "github.com/cpnode/cpnode/switch"

// epochs is the leader-epoch cache: ascending in both fields. It is never changed in place,
// so that readers may hold it. An epoch enters it with its first record.
type epochs []switchover.EpochStart

// put adds the epoch of a batch that begins at start, the end of the log.
func (e epochs) put(epoch int32, start int64) (epochs, error) {
	last := len(e) - 1
	switch {
	case last >= 0 && e[last].Epoch == epoch:
		return e, nil
	case last >= 0 && e[last].Epoch > epoch:
		return nil, invalid("leader epoch %d at offset %d, behind records of epoch %d", epoch, start, e[last].Epoch)
	}
	return append(e[:len(e):len(e)], switchover.EpochStart{Epoch: epoch, Start: start}), nil
}

// before is what is left when the log is cut to end at offset.
func (e epochs) before(offset int64) epochs {
	for len(e) > 0 && e[len(e)-1].Start >= offset {
		e = e[:len(e)-1]
	}
	return e
}

// within is what is left of a log that begins and ends so. The epoch that the beginning is
// in begins there.
func (e epochs) within(start, end int64) epochs { return e.from(start).before(end) }

func (e epochs) from(offset int64) epochs {
	for len(e) > 1 && e[1].Start <= offset {
		e = e[1:]
	}
	if len(e) == 0 || e[0].Start >= offset {
		return e
	}
	return append(epochs{{Epoch: e[0].Epoch, Start: offset}}, e[1:]...)
}

// endOf is the largest epoch that is not above the given one, and where it ended. -1, -1 if
// the given one is above all. If it is below all, the answer is the given one and the start
// of the first: nothing before that is shared.
func (e epochs) endOf(epoch int32, end int64) (int32, int64) {
	if len(e) == 0 || epoch > e[len(e)-1].Epoch {
		return -1, -1
	}
	found := epoch
	for _, entry := range e {
		if entry.Epoch > epoch {
			return found, entry.Start
		}
		found = entry.Epoch
	}
	return found, end
}
