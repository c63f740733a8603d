package raftnode

import (
	"sync"
	"time"
)

// slowFraction of LeaderSlowDisk is the time from which on a write counts as slow:
// with the default of five seconds half a second, which is one heartbeat timeout.
// Two seconds without writes are what another leader costs; ten writes in a row at
// that speed cost more. A healthy disk that now and then takes 200 ms is far below.
const slowFraction = 10

// pace watches appends to raft's log, of which raft makes one at a time: how long
// slow ones have lasted, without one in between that was not slow.
type pace struct {
	slow time.Duration // from which on a write is slow; 0: none ever is

	mu      sync.Mutex
	began   time.Time // of the write in progress
	lasting time.Duration
}

func (p *pace) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = now
}

func (p *pace) end(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if took := now.Sub(p.began); p.isSlow(took) {
		p.lasting += took
	} else {
		p.lasting = 0
	}
	p.began = time.Time{}
}

func (p *pace) isSlow(took time.Duration) bool { return p.slow > 0 && took >= p.slow }

// forget begins anew: a new leader has its whole time.
func (p *pace) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasting = 0
}

// run is how long the latest writes were slow, each of them, the one in progress
// included; hangs is how much of that is the latter.
func (p *pace) run(now time.Time) (run, hangs time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.began.IsZero() {
		if took := now.Sub(p.began); p.isSlow(took) {
			hangs = took
		}
	}
	return p.lasting + hangs, hangs
}

// progress knows how long a leader has got nowhere.
type progress struct {
	mark  uint64 // moves with every entry committed or applied
	since time.Time

	mu      sync.Mutex
	refused time.Time // first of the refusals without a success in between
	latest  time.Time // and the last one
}

// stuck is how long something has waited while mark stood still, or for how long
// raft has refused every entry. One goroutine calls it.
func (p *progress) stuck(now time.Time, mark uint64, waiting bool) time.Duration {
	if !waiting || mark != p.mark || p.since.IsZero() {
		p.mark, p.since = mark, now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(now.Sub(p.since), p.latest.Sub(p.refused))
}

// outcome notes whether raft took an entry: a transfer of leadership that never
// ends refuses all of them.
func (p *progress) outcome(now time.Time, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case taken:
		p.refused, p.latest = time.Time{}, time.Time{}
	case p.refused.IsZero():
		p.refused, p.latest = now, now
	default:
		p.latest = now
	}
}

// forget begins anew.
func (p *progress) forget() {
	p.since = time.Time{}
	p.outcome(time.Time{}, true)
}

// hangUnfit: a write that hangs holds raft's main loop, which then cannot hand over.
func (n *Node) hangUnfit(now time.Time) *unfit {
	if n.diskHangs(now) {
		return &unfit{unfitHangs, "a write to the raft log hangs", true}
	}
	return nil
}

func (n *Node) slowUnfit(now time.Time) *unfit {
	if run, _ := n.log.pace.run(now); n.config.LeaderSlowDisk > 0 && run >= n.config.LeaderSlowDisk {
		return &unfit{unfitSlow, "writes to the raft log stay slow", false}
	}
	return nil
}

// stuckUnfit says that this leader gets nowhere: a transfer that never ends, a
// majority's disks that hang, a take-over that does not succeed. One goroutine calls
// it.
func (n *Node) stuckUnfit(now time.Time) *unfit {
	waiting := n.leading() == nil || n.inFlight.any()
	stuck := n.progress.stuck(now, n.raft.CommitIndex()+n.fsm.Applied(), waiting)
	if n.config.LeaderSlowDisk > 0 && stuck >= n.config.LeaderSlowDisk {
		return &unfit{unfitStuck, "entries wait, and none was committed for too long", true}
	}
	return nil
}

// diskHangs says that a write to the raft log has taken too long already.
func (n *Node) diskHangs(now time.Time) bool {
	_, hangs := n.log.pace.run(now)
	return n.config.LeaderSlowDisk > 0 && hangs >= n.config.LeaderSlowDisk
}
