package switchover

import (
	"slices"
	"sync"
	"time"
)

// progress is what a leader knows of its followers in the present leader epoch, and decides
// by: what is committed, and who belongs into the ISR. Both are decided under its lock, so
// that nobody joins the ISR below a high watermark that was just raised. It is taken with
// the lock of the log held, and calls the log.
type progress struct {
	mu        sync.Mutex
	began     time.Time // when this broker took the epoch
	start     int64     // end of the log at that time
	followers map[int32]follower
	proposed  []int32 // brokers of ISRs that were asked for: one may be the ISR already
}

// follower is what the last fetch of a replica said.
type follower struct {
	brokerEpoch int64
	offset      int64 // it has everything below
	end         int64 // of the leader's log at that time
	fetchedAt   time.Time
	caughtUpAt  time.Time // the last time at which it had all that the leader had
}

// reset is for a new leader epoch.
func (p *progress) reset(end int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.start, p.followers, p.proposed = now, end, map[int32]follower{}, nil
}

// settle says that no proposed ISR can become the ISR any more, but by a new registration.
func (p *progress) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proposed = nil
}

// fetched notes a fetch. A follower at the end is caught up; one that now is where the end
// was at its last fetch was caught up then.
func (p *progress) fetched(replica int32, brokerEpoch, offset, end int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, known := p.followers[replica]
	if !known || f.brokerEpoch != brokerEpoch {
		f = follower{brokerEpoch: brokerEpoch}
	}
	switch {
	case offset >= end:
		f.caughtUpAt = now
	case known && offset >= f.end:
		f.caughtUpAt = f.fetchedAt
	}
	f.offset, f.end, f.fetchedAt = offset, end, now
	p.followers[replica] = f
}

// advance raises the high watermark to what all of the ISR hold, and of those that may have
// joined it. Nothing is known of a member before its first fetch in this epoch.
func (p *progress) advance(log LocalLog, reg *Registration, me int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	committed := log.EndOffset()
	for _, members := range [][]int32{reg.ISR, p.proposed} {
		for _, id := range members {
			f, known := p.followers[id]
			switch {
			case id == me:
			case !known:
				return nil
			default:
				committed = min(committed, f.offset)
			}
		}
	}
	if committed <= log.HighWatermark() {
		return nil
	}
	return log.SetHighWatermark(committed)
}

// wanted is the ISR that a leader asks for, in replica order, and notes it as proposed if it
// is another than the present one; nil: it is not.
func (p *progress) wanted(log LocalLog, reg *Registration, me int32, brokers Brokers, now time.Time, lagMax time.Duration) []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var isr []int32
	for _, id := range reg.Replicas {
		f, known := p.followers[id]
		switch {
		case id == me,
			reg.inSync(id) && p.stays(reg, f, known, now, lagMax),
			!reg.inSync(id) && known && p.joins(log, reg, id, f, brokers, now, lagMax):
			isr = append(isr, id)
		}
	}
	if len(isr) == len(reg.ISR) && !slices.ContainsFunc(isr, func(id int32) bool { return !reg.inSync(id) }) {
		return nil
	}
	for _, id := range isr {
		if !slices.Contains(p.proposed, id) {
			p.proposed = append(p.proposed, id)
		}
	}
	return isr
}

// stays says whether a member of the ISR remains one. After the seal nothing is appended that
// it could miss, and its copy of the prefix may be the last: one that is at the seal leaves
// only when the control plane fences it, however long it is silent. A member that has not
// been heard of in this epoch is at the seal, since that is what its membership says.
func (p *progress) stays(reg *Registration, f follower, known bool, now time.Time, lagMax time.Duration) bool {
	if reg.Sealed() && (!known || f.offset >= reg.Seal()) {
		return true
	}
	since := f.caughtUpAt
	if since.Before(p.began) {
		since = p.began
	}
	return now.Sub(since) <= lagMax
}

// joins says whether a replica may be asked into the ISR: the broker that fetched is the one
// that is registered, and it holds all that is committed, which after the seal is the whole
// prefix.
func (p *progress) joins(log LocalLog, reg *Registration, id int32, f follower, brokers Brokers, now time.Time, lagMax time.Duration) bool {
	epoch, alive := brokers.Epoch(id)
	return alive && epoch == f.brokerEpoch && now.Sub(f.fetchedAt) <= lagMax &&
		f.offset >= log.HighWatermark() && f.offset >= p.start && f.offset >= reg.Seal()
}
