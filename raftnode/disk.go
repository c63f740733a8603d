package raftnode

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// space knows whether this node has room for what clients want to write. What is
// left when it has not is for entries that are under way, and for those that free
// space.
type space struct {
	minFree int64        // of the file system, in bytes; 0: not watched
	margin  int64        // of the state file below its bound; 0: it has none
	free    func() int64 // of the file system, negative when unknown
	room    func() int64 // of the state file

	looked time.Time
	bytes  atomic.Int64 // what free said last
	disk   atomic.Bool  // the file system is low
	file   atomic.Bool  // the state file is
	// What waits in place until there is space: writes to the log, entries to be
	// applied.
	log, apply atomic.Bool
}

const (
	spaceInterval = 500 * time.Millisecond
	starvedRetry  = 200 * time.Millisecond
	// spaceSlack divides what must be free beyond the bound to end a shortage: a
	// node at the bound does not take and refuse in turn.
	spaceSlack = 4
	// stateMargin divides StateMaxBytes into the part that is kept for entries
	// under way and for those that free space: a delete rewrites the rows of all
	// logs that it marks.
	stateMargin  = 4
	stateReserve = 256 << 20 // the most that is kept
)

func (n *Node) openSpace() {
	s := &n.space
	s.minFree, s.free, s.room = n.config.DiskMinFree, n.config.Surroundings.FreeBytes, n.store.Room
	if s.free == nil {
		s.free = func() int64 { return diskFree(n.config.DataDir) }
	}
	s.margin = min(int64(n.config.StateMaxBytes)/stateMargin, stateReserve)
	s.measure()
}

// look measures when it is time to.
func (s *space) look(now time.Time) {
	if now.Sub(s.looked) >= spaceInterval {
		s.looked = now
		s.measure()
	}
}

func (s *space) measure() {
	free := s.free()
	s.bytes.Store(free)
	s.disk.Store(free >= 0 && short(free, s.minFree, s.disk.Load()))
	s.measureFile()
}

// measureFile is quick. Without it before each write a burst of them could pass the
// margin within one interval.
func (s *space) measureFile() {
	if s.margin > 0 {
		s.file.Store(short(s.room(), s.margin, s.file.Load()))
	}
}

// short says whether less is left than there must be; was is what it said before.
func short(left, bound int64, was bool) bool {
	if was {
		bound += bound / spaceSlack
	}
	return left < bound
}

// low says what is short, empty when nothing is.
func (s *space) low() string {
	switch {
	case s.disk.Load():
		return fmt.Sprintf("%d bytes are free in the data directory, %d must be before clients can write again", s.bytes.Load(), s.minFree+s.minFree/spaceSlack)
	case s.file.Load():
		return "the state file is near its bound"
	case s.waits():
		return "entries wait for space on this node's disk"
	default:
		return ""
	}
}

// waits says whether this node is held up for want of space.
func (s *space) waits() bool { return s.log.Load() || s.apply.Load() }

// starve is for who cannot go on without space: called with the reason it waits a
// moment and says whether to try again, which is so until the node stops; called
// with nil it notes that there was space.
func (n *Node) starve(what string, waits *atomic.Bool) func(error) (again bool) {
	return func(err error) bool {
		if waits.Swap(err != nil) != (err != nil) {
			n.logger.Warn("waits for space on the disk", "what", what, "waits", err != nil, "error", err)
		}
		if err == nil {
			return true
		}
		select {
		case <-time.After(starvedRetry):
			return true
		case <-n.ctx.Done():
			return false
		}
	}
}

// refusesSpace is the answer to an operation that may take space which is not there:
// here, or on so many voters that the others are no majority.
func (n *Node) refusesSpace(op *ops.Operation) error {
	if op.RunsWhenFull {
		return nil
	}
	n.space.measureFile()
	if low := n.space.low(); low != "" {
		return ops.Errorf(ops.StorageFull, "%s", low)
	}
	all, full := voters(n.servers()), ""
	left := len(all)
	for _, s := range all {
		if p := n.polls.of(s.ID); p.report != nil && p.report.Unfit == unfitSpace {
			full += " " + nameOf(s.ID)
			left--
		}
	}
	if left <= len(all)/2 {
		return ops.Errorf(ops.StorageFull, "a majority of the voters has no space:%s", full)
	}
	return nil
}

// spaceUnfit says that another node should lead, which may have space.
func (n *Node) spaceUnfit() *unfit {
	if low := n.space.low(); low != "" {
		return &unfit{unfitSpace, low, false}
	}
	return nil
}
