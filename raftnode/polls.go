package raftnode

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// polls is what the members said of themselves when this node, leading, last asked.
type polls struct {
	mu  sync.Mutex
	all map[raft.ServerID]*poll
}

// poll is one member's line. A leadership begins with empty ones.
type poll struct {
	since time.Time // when it was first asked
	busy  bool      // being asked

	report    *nodeReport // the last one, nil before any
	at        time.Time
	addr      string // where it answered
	commit    uint64 // what its state was to hold at that moment
	roundTrip time.Duration
	offset    time.Duration // its clock less this node's
	clock     int64         // this node's at that moment, in milliseconds
	caughtUp  int           // answers in a row that were near the commit index
	problem   string        // of the last attempt, empty when it was answered

	conn *dialed // kept between polls, used by who asks
}

// pollsToPromote is how many answers in a row must be caught up before a learner
// votes: one may be luck.
const pollsToPromote = 2

// silentPolls is after how many intervals without an answer a member is not counted
// on.
const silentPolls = 3

// begin returns the lines of servers that are to be asked now, and forgets others.
func (p *polls) begin(servers []raft.Server, self raft.ServerID) map[raft.ServerID]*poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	ask, keep := map[raft.ServerID]*poll{}, map[raft.ServerID]*poll{}
	for _, s := range servers {
		if s.ID == self {
			continue
		}
		line := p.all[s.ID]
		if line == nil {
			line = &poll{since: time.Now()}
		}
		keep[s.ID] = line
		if !line.busy {
			line.busy = true
			ask[s.ID] = line
		}
	}
	for id, line := range p.all {
		if keep[id] == nil && !line.busy {
			line.hangUp()
		}
	}
	p.all = keep
	return ask
}

// reset hangs up and forgets all, at the end of a leadership.
func (p *polls) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.all {
		if !line.busy {
			line.hangUp()
		}
	}
	p.all = nil
}

// done notes the outcome of one attempt.
func (p *polls) done(id raft.ServerID, line *poll, note func(*poll)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line.busy = false
	note(line)
	if p.all[id] != line { // nobody will ask it again
		line.hangUp()
	}
}

// of is a copy of one member's line; the zero one when there is none.
func (p *polls) of(id raft.ServerID) poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line := p.all[id]; line != nil {
		return *line
	}
	return poll{}
}

func (p *poll) hangUp() {
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

// pollMembers asks every member that is not being asked. It does not wait.
func (n *Node) pollMembers(ctx context.Context) {
	for id, line := range n.polls.begin(n.servers(), n.id()) {
		n.run(func() { n.pollMember(ctx, id, line) })
	}
}

func (n *Node) pollMember(ctx context.Context, id raft.ServerID, line *poll) {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	commit := n.lastSeen(n.raft.CommitIndex())
	r, sent, err := n.askReport(ctx, id, line)
	now := time.Now()
	n.polls.done(id, line, func(p *poll) {
		if err != nil {
			p.problem, p.caughtUp = err.Error(), 0
			p.hangUp()
			return
		}
		p.report, p.at, p.addr, p.commit, p.problem = r, now, p.conn.addr, commit, ""
		p.roundTrip = now.Sub(sent)
		middle := n.config.Now().Add(-p.roundTrip / 2)
		p.offset = time.UnixMilli(r.ClockMs).Sub(middle)
		p.clock = n.clock()
		if r.AppliedIndex+readyLag >= commit {
			p.caughtUp++
		} else {
			p.caughtUp = 0
		}
		if r.Addr != p.addr { // it moved: the next question goes where it says it is
			p.hangUp()
		}
	})
}

// askReport asks over the connection that is kept, or a new one.
func (n *Node) askReport(ctx context.Context, id raft.ServerID, line *poll) (*nodeReport, time.Time, error) {
	if line.conn == nil {
		conn, err := n.dialMember(ctx, id, kindControl)
		if err != nil {
			return nil, time.Time{}, err
		}
		n.polls.mu.Lock() // others copy the line
		line.conn = &conn
		n.polls.mu.Unlock()
	}
	sent := time.Now()
	said, err := askControl(ctx, line.conn, controlRequest{Verb: verbReport})
	if err == nil && said.Report == nil {
		err = errNoReport
	}
	return said.Report, sent, err
}

// reachable says whether the member answered lately.
func (n *Node) reachable(id raft.ServerID) bool {
	return id == n.id() || time.Since(n.polls.of(id).at) < n.silentAfter()
}

// silentAfter leaves room for one attempt that times out.
func (n *Node) silentAfter() time.Duration {
	return silentPolls*n.config.pollInterval + controlTimeout
}
