package raftnode

import (
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
)

var unfitKinds = []unfitKind{unfitHangs, unfitSlow, unfitStuck, unfitSpace}

const (
	// watchInterval is how often a node looks at itself.
	watchInterval = 100 * time.Millisecond
	// yieldRetry is the pause between attempts to hand leadership over.
	yieldRetry = 2 * time.Second
)

// watcher looks whether this node is fit to lead, and makes way for another when
// it is not. One goroutine uses it.
type watcher struct {
	node  *Node
	led   bool
	said  unfitKind // what was logged last
	tried time.Time // to hand over, last
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
	if now.Sub(w.tried) >= yieldRetry {
		w.tried = now
		n.run(func() { n.yield(reason) })
	}
}

// unfit is why this leader should not lead, nil while it should.
func (n *Node) unfit(now time.Time) *unfit {
	if reason := n.diskUnfit(now); reason != nil {
		return reason
	}
	return n.spaceUnfit()
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
func (n *Node) soleVoter() bool {
	voters := 0
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	return voters <= 1
}

// yield hands leadership over. It is tried again while the reason lasts; a transfer
// that never ends shows in refused entries, see progress.
func (n *Node) yield(reason *unfit) {
	waitFor(transferTimeout, n.ctx.Done(), func() {
		if err := n.raft.LeadershipTransfer().Error(); err != nil {
			n.logger.Warn("could not hand leadership over", "reason", reason.kind, "error", err)
			return
		}
		n.metrics.yielded(reason.kind)
	})
}
