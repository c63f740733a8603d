package raftnode

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// unfit is a reason for this node not to lead.
type unfit struct {
	kind unfitKind
	why  string
	// mute: raft cannot be asked to hand over, or does not.
	mute bool
}

// unfitKind is the label of a metric.
type unfitKind string

const (
	unfitHangs unfitKind = "disk_hangs"
	unfitSlow  unfitKind = "disk_slow"
	unfitStuck unfitKind = "stuck"
	unfitSpace unfitKind = "space"
	unfitClock unfitKind = "clock"
	unfitState unfitKind = "state"
)

var unfitKinds = []unfitKind{unfitHangs, unfitSlow, unfitStuck, unfitSpace, unfitClock, unfitState}

const (
	// watchInterval is how often a node looks at itself.
	watchInterval = 100 * time.Millisecond
	// yieldRetry is the pause between attempts to hand leadership over.
	yieldRetry = 2 * time.Second
	// yieldLook is how often is looked whether another leads after raft stopped waiting.
	yieldLook = 20 * time.Millisecond
)

// watcher looks whether this node is fit to lead, and makes way for another when
// it is not. One goroutine uses it, but for yielding.
type watcher struct {
	node  *Node
	led   bool
	said  unfitKind // what was logged last
	tried time.Time // to hand over, last
	// yielding: that attempt has not ended.
	yielding atomic.Bool
}

func (n *Node) watch() {
	w := watcher{node: n}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			now := time.Now()
			n.space.look(now)
			w.look(now)
		case <-n.ctx.Done():
			return
		}
	}
}

func (w *watcher) look(now time.Time) {
	n := w.node
	leads := n.raft.State() == raft.Leader
	if leads != w.led {
		w.led, w.tried = leads, time.Time{}
		n.log.pace.forget()
		n.progress.forget()
	}
	if !leads {
		if n.transport.layer.isMute() {
			n.logger.Info("no longer mute: another node may lead")
			n.transport.layer.speak()
		}
		return
	}
	n.Staleness() // which notes whether the state keeps up
	reason := n.unfit(now)
	w.say(reason)
	if reason == nil || n.soleVoter() || n.transport.layer.isMute() {
		return
	}
	if reason.mute {
		n.metrics.yielded(reason.kind)
		n.transport.layer.mute()
		return
	}
	if now.Sub(w.tried) >= yieldRetry && w.yielding.CompareAndSwap(false, true) {
		w.tried = now
		n.run(func() {
			defer w.yielding.Store(false)
			n.yield(reason)
		})
	}
}

// unfit is why this leader should not lead, nil while it should.
func (n *Node) unfit(now time.Time) *unfit {
	return first(n.hangUnfit(now), n.stuckUnfit(now), n.hostUnfit(now), n.clockUnfit())
}

// hostUnfit is what can be said of a follower as well.
func (n *Node) hostUnfit(now time.Time) *unfit {
	return first(n.hangUnfit(now), n.stateUnfit(), n.slowUnfit(now), n.spaceUnfit())
}

func first(reasons ...*unfit) *unfit {
	for _, reason := range reasons {
		if reason != nil {
			return reason
		}
	}
	return nil
}

// say logs each reason once, and its end.
func (w *watcher) say(reason *unfit) {
	var kind unfitKind
	if reason != nil {
		kind = reason.kind
	}
	switch {
	case kind == w.said:
	case reason == nil:
		w.node.logger.Info("fit to lead again", "was", w.said)
	default:
		w.node.logger.Warn("this node should not lead", "reason", reason.kind, "why", reason.why)
	}
	w.said = kind
}

// soleVoter says that there is nobody to make way for.
func (n *Node) soleVoter() bool { return len(voters(n.servers())) <= 1 }

// yield hands leadership over to a voter that is fit, if there is one. It is tried
// again while the reason lasts; a transfer that never ends shows in refused entries,
// see progress.
func (n *Node) yield(reason *unfit) {
	to, ok := n.fitVoter()
	if !ok {
		n.quiet.say("no voter is fit", func() { n.logger.Warn("no other voter that answers is fit to lead", "reason", reason.kind) })
		return
	}
	ended := time.Now().Add(yieldRetry)
	err := n.transferOnce(n.ctx, to)
	// raft stops waiting after an election timeout; what it began may still succeed.
	for err != nil && !n.anotherLeads() && time.Now().Before(ended) && wait(n.ctx, yieldLook) == nil {
	}
	if err != nil && !n.anotherLeads() {
		n.logger.Warn("could not hand leadership over", "reason", reason.kind, "to", nameOf(to.ID), "error", err)
		return
	}
	n.metrics.yielded(reason.kind)
}

func (n *Node) anotherLeads() bool {
	_, leader := n.raft.LeaderWithID()
	return leader != "" && leader != n.id()
}

// fitVoter is the voter whose log ends last of those that say that they are fit and
// whose clock agrees with a majority's.
func (n *Node) fitVoter() (best raft.Server, ok bool) {
	clocks := n.clocks()
	var end uint64
	for i, s := range voters(n.servers()) {
		p := n.polls.of(s.ID)
		if s.ID == n.id() || !n.reachable(s.ID) || p.report == nil || p.report.Unfit != "" || p.report.Problem != "" {
			continue
		}
		if i < len(clocks) && n.agrees(clocks, clocks[i].offset) && p.report.LastIndex >= end {
			best, ok, end = s, true, p.report.LastIndex
		}
	}
	return best, ok
}
