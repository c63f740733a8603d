package switchover

import (
	"sync"
	"sync/atomic"

	"github.com/cpnode/cpnode/ops"
)

// partition is this broker's part of one partition.
type partition struct {
	ref ops.LogRef
	// role is held over a change of role from its beginning to its end, fetchers included.
	// No read, no append, no fetch and no deletion takes it.
	role sync.Mutex
	// mu is the lock of the log. Held shared: reading and appending. Held alone: taking a
	// role, truncating, deleting the prefix, promoting a future log.
	mu      sync.RWMutex
	log     LocalLog // nil: this broker is no replica
	future  LocalLog // nil but during a directory move
	reg     *Registration
	offline string // why it is not served here
	kept    bool   // the warning that the prefix is kept was logged
	spans   bool   // the warning that a segment spans the seal was logged

	progress progress
	changed  signal // parked reads look again
	commits  [commitKinds]attempt

	// For metrics, which wait for no disk.
	state       atomic.Pointer[ops.PartitionState]
	prefixBytes atomic.Int64
}

func newPartition(ref ops.LogRef) *partition { return &partition{ref: ref} }

// leads says whether this broker is the leader. The caller holds mu.
func (p *partition) leads(me int32) bool { return p.reg != nil && p.log != nil && p.reg.Leader == me }

// advance raises the high watermark if this broker leads, and the followers' progress says
// so. Consolidated records are committed when they are written. The caller holds mu.
func (p *partition) advance(me int32) error {
	if !p.leads(me) || p.reg.State.Diskless() {
		return nil
	}
	return p.progress.advance(p.log, p.reg, me)
}

// usable is nil if the partition is registered and not offline. The caller holds mu.
func (p *partition) usable() error {
	switch {
	case p.reg == nil:
		return ErrNotLeaderOrFollower
	case p.offline != "":
		return &offlineError{p.ref, p.offline}
	}
	return nil
}

func (p *partition) remove() (log, future LocalLog) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, future = p.log, p.future
	p.log, p.future, p.reg = nil, nil, nil
	return log, future
}

func (p *partition) status(me int32) Status {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := Status{Leader: p.leads(me), Offline: p.offline}
	if p.reg != nil {
		s.State = p.reg.State
	}
	if p.log != nil {
		s.LogStart, s.LocalLogStart = p.log.LogStartOffset(), p.log.LocalLogStartOffset()
		s.HighWatermark, s.End = p.log.HighWatermark(), p.log.EndOffset()
	}
	return s
}

// measure notes what metrics show of a partition that this broker holds. The caller holds mu.
func (p *partition) measure() {
	if p.reg == nil || p.log == nil {
		return
	}
	state, bytes := p.reg.State, int64(0)
	if p.reg.Sealed() {
		for _, s := range p.log.Segments() {
			if s.Base < p.reg.Seal() {
				bytes += s.Bytes
			}
		}
	}
	p.state.Store(&state)
	p.prefixBytes.Store(bytes)
}
