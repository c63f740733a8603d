package raftnode

import (
	"sync"
	"time"
)

// longestPause bounds how long an entry of a drain is held back.
const longestPause = 20 * time.Millisecond

// pacer leaves time to others between the entries of drains: as much as the last of
// them took, while others propose too. So drains take half of the time at most, and
// what they change in each transaction of the state, whose end stalls all, is half as
// much.
type pacer struct {
	mu     sync.Mutex
	number uint64 // of all that was proposed, which the last entry of a drain was; 0: none
	took   time.Duration
	ended  time.Time
}

// pause is how long to hold back an entry of a drain now, if the latest entry of all
// has that number.
func (p *pacer) pause(now time.Time, latest uint64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.number == latest {
		return 0
	}
	return max(0, min(p.took, longestPause)-now.Sub(p.ended))
}

// answered notes that an entry of a drain was answered.
func (p *pacer) answered(number uint64, began, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number, p.took, p.ended = number, now.Sub(began), now
}

// giveWay holds back an entry of a drain.
func (p *proposer) giveWay() {
	d := p.node.pacer.pause(time.Now(), p.node.inFlight.latest())
	if d == 0 {
		return
	}
	pause := time.NewTimer(d)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-p.ctx.Done():
	case <-p.node.ctx.Done():
	}
}
