package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

// nemesis carries out the faults of a scenario.
type nemesis struct {
	*cluster
	// members is held by the one fault that changes the members: the log of a second
	// node must not be lost before the first has its own again.
	members chan struct{}
}

// disturb carries out all faults at their times, and returns when all are over.
func (c *cluster) disturb(ctx context.Context) {
	n := nemesis{c, make(chan struct{}, 1)}
	began := time.Now()
	var all sync.WaitGroup
	for _, f := range c.scenario.Faults {
		all.Go(func() {
			pause(ctx, f.At-time.Since(began))
			if ctx.Err() == nil {
				n.count(f.Kind, n.carryOut(ctx, f))
			}
		})
	}
	all.Wait()
}

// carryOut does one thing, from its begin to its end; false when it was not the time
// for it.
func (n *nemesis) carryOut(ctx context.Context, f Fault) bool {
	at := n.node(f)
	if at == nil {
		return false
	}
	n.say("%s %s for %s", f.Kind, at.peer.ID, f.For)
	switch f.Kind {
	case Kill, Power:
		return n.crash(at, f, f.Kind == Power)
	case KillAtLog, PowerAtLog, KillAtState, PowerAtState:
		return n.crashAt(ctx, at, f)
	case Blackout:
		for _, other := range n.nodes {
			n.crash(other, f, true)
		}
		return true
	case Stop:
		return n.order(ctx, at, order{down: f.For})
	case Transfer:
		return n.transfer(ctx, at, f)
	case Wipe:
		return n.alone(func() bool { return n.wipe(ctx, at, f) })
	case RemoveAndJoin:
		return n.alone(func() bool { return n.removeAndJoin(ctx, at, f) })
	case Clock:
		at.skew.Add(int64(ms(f.Arg)))
		pause(ctx, f.For)
		at.skew.Add(-int64(ms(f.Arg)))
	case SlowLog:
		at.disk.slow.Add(int64(ms(f.Arg)))
		pause(ctx, f.For)
		at.disk.slow.Add(-int64(ms(f.Arg)))
	case LyingSync:
		return n.alone(func() bool { return n.lie(ctx, at, f) })
	default:
		if fault, ok := diskKinds[f.Kind]; ok {
			n.damage(ctx, at, fault, f)
			return true
		}
		n.disconnect(ctx, at, f)
	}
	return true
}

// node is the one that a fault hits.
func (n *nemesis) node(f Fault) *node {
	if f.Node == Leader {
		return n.leader()
	}
	return n.nodes[f.Node]
}

// crash ends a node's process now.
func (n *nemesis) crash(at *node, f Fault, power bool) bool {
	p := at.running()
	if p == nil {
		return false
	}
	at.downFor(f.For)
	p.crash(power)
	return true
}

// crashWithin is how long a crash at a write waits for the write.
const crashWithin = 15 * time.Second

// crashAt ends a node's process at a write to come, if it comes soon enough.
func (n *nemesis) crashAt(ctx context.Context, at *node, f Fault) bool {
	p := at.running()
	if p == nil {
		return false
	}
	t := trip{kind: logWrites, left: int(f.Arg), when: endBefore, power: f.Kind == PowerAtLog || f.Kind == PowerAtState}
	if f.Kind == KillAtState || f.Kind == PowerAtState {
		t.kind = stateChanges
	} else if f.Arg%2 == 0 {
		t.when = endAfter
	}
	at.downFor(f.For)
	p.endAt(t)
	select {
	case <-p.over:
		return true
	case <-time.After(crashWithin):
	case <-ctx.Done():
	}
	p.forget()
	return false
}

// order has the supervisor of a node do something.
func (n *nemesis) order(ctx context.Context, at *node, o order) bool {
	select {
	case at.orders <- o:
		return true
	case <-time.After(time.Second): // it does not run
	case <-ctx.Done():
	}
	return false
}

func (n *nemesis) transfer(ctx context.Context, at *node, f Fault) bool {
	p, to := at.running(), ""
	if p == nil {
		return false
	}
	if f.To != f.Node && n.nodes[f.To] != at {
		to = n.nodes[f.To].peer.ID
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := p.node.Transfer(ctx, to)
	if err != nil {
		n.say("no transfer from %s to %q: %v", at.peer.ID, to, err)
	}
	return err == nil
}

// lie lets a disk forget what it said was durable of the state, with the power of its
// machine. A node whose log begins after the records of the state that are left says so,
// and must be given a new disk.
func (n *nemesis) lie(ctx context.Context, at *node, f Fault) bool {
	if n.allReady() != nil {
		return false
	}
	n.damage(ctx, at, stateLies, f)
	at.lied.Store(true)
	before := at.running()
	done := n.crash(at, f, true)
	n.awaitVoter(ctx, at, before)
	at.lied.Store(false)
	return done
}

// diskKinds are the faults that are something wrong with a disk for a while.
var diskKinds = map[Kind]diskFault{
	FullLog: logFull, FullState: stateFull, Low: spaceLow, BadLogSync: syncsFail, BadStateSync: stateFails, BadRead: readsFail,
}

func (n *nemesis) damage(ctx context.Context, at *node, fault diskFault, f Fault) {
	if at.disk.faults[fault].Swap(true) {
		return // it is already
	}
	if at.disk.unsound() {
		at.excused.Store(true)
	}
	pause(ctx, f.For)
	at.disk.faults[fault].Store(false)
}

// disconnect disturbs the network around a node.
func (n *nemesis) disconnect(ctx context.Context, at *node, f Fault) {
	begin, end := func(l *link) { l.cut++ }, func(l *link) { l.cut-- }
	switch f.Kind {
	case SlowNet:
		begin, end = func(l *link) { l.slow += ms(f.Arg) }, func(l *link) { l.slow -= ms(f.Arg) }
	case BadNet:
		begin, end = func(l *link) { l.breaks += breakChance }, func(l *link) { l.breaks -= breakChance }
	}
	n.links(at, f, begin)
	pause(ctx, f.For)
	n.links(at, f, end)
}

// breakChance is how often sending breaks the connection in a bad network.
const breakChance = 0.02

// links changes the links that a fault is about.
func (n *nemesis) links(at *node, f Fault, fn func(*link)) {
	for _, other := range n.nodes {
		if other == at || (f.Kind == Cut || f.Kind == OneWay) && other != n.other(at, f) {
			continue
		}
		if f.Kind != Deaf {
			n.network.change(at.peer.Addr, other.peer.Addr, fn)
		}
		if f.Kind != Dumb && f.Kind != OneWay {
			n.network.change(other.peer.Addr, at.peer.Addr, fn)
		}
	}
}

// other is the second node of a fault: where the first is the leader, that may be the
// one that was meant.
func (n *nemesis) other(at *node, f Fault) *node {
	if other := n.nodes[f.To]; other != at {
		return other
	}
	return n.nodes[(f.To+1)%len(n.nodes)]
}

// alone runs what changes the members, unless something else does.
func (n *nemesis) alone(fn func() bool) bool {
	select {
	case n.members <- struct{}{}:
		defer func() { <-n.members }()
		return fn()
	default:
		return false
	}
}

// backAgain is how long it may take a node to become a voter again once all is well.
const backAgain = 5 * time.Minute

// wipe gives a node a new disk, when all others are well, and waits until it is a voter
// again.
func (n *nemesis) wipe(ctx context.Context, at *node, f Fault) bool {
	before := at.running()
	if n.allReady() != nil || !n.order(ctx, at, order{wipe: true, down: f.For}) {
		return false
	}
	n.awaitVoter(ctx, at, before)
	return true
}

// awaitVoter waits until a node whose process was another before votes, as far as the
// run lasts.
func (n *nemesis) awaitVoter(ctx context.Context, at *node, before *process) {
	err := await(ctx, backAgain, func() error { return n.votes(ctx, at, before) })
	if err != nil && ctx.Err() == nil {
		n.fail("node %s is no voter again after %s: %v", at.peer.ID, backAgain, err)
	}
}

// votes is nil when the leader counts the directory of a node's new process as a voter.
func (n *nemesis) votes(ctx context.Context, at *node, before *process) error {
	if at.running() == before {
		return errors.New("it was not started again")
	}
	leader := n.leader()
	if leader == nil {
		return errors.New("nobody leads")
	}
	p := leader.running()
	if p == nil {
		return errors.New("the leader has gone")
	}
	if err := at.ready(); err != nil {
		return err
	}
	s, err := p.node.Cluster(ctx)
	if err != nil {
		return err
	}
	var roles []string // two while one directory replaces another
	for _, m := range s.Members {
		if m.ID == at.peer.ID {
			roles = append(roles, m.Role)
		}
	}
	if len(roles) != 1 || roles[0] != "voter" {
		return fmt.Errorf("the leader %s counts it as %v", leader.peer.ID, roles)
	}
	return nil
}

// removeAndJoin takes a node out of the cluster for good, and brings a new one in its
// place, as an operator does.
func (n *nemesis) removeAndJoin(ctx context.Context, at *node, f Fault) bool {
	if n.allReady() != nil {
		return false
	}
	before := at.running()
	err := await(ctx, backAgain, func() error { return n.remove(ctx, at) })
	if err != nil {
		n.say("%s was not removed: %v", at.peer.ID, err)
		return false
	}
	for ctx.Err() == nil && !n.order(ctx, at, order{wipe: true, down: f.For}) {
		n.say("%s was removed, and does not run", at.peer.ID)
	}
	err = await(ctx, backAgain, func() error {
		if n.votes(ctx, at, before) == nil {
			return nil
		}
		return n.atLeader(ctx, func(ctx context.Context, p *process) error {
			_, err := p.node.Join(ctx, raftnode.Peer{ID: at.peer.ID, Addr: at.peer.Addr})
			return err
		})
	})
	if err != nil && ctx.Err() == nil {
		n.fail("node %s cannot join again: %v", at.peer.ID, err)
	}
	n.awaitVoter(ctx, at, before)
	return true
}

// remove takes a node out of the cluster, unless it is out already.
func (n *nemesis) remove(ctx context.Context, at *node) error {
	return n.atLeader(ctx, func(ctx context.Context, p *process) error {
		s, err := p.node.Cluster(ctx)
		if err != nil || !slices.ContainsFunc(s.Members, func(m raftnode.MemberStatus) bool { return m.ID == at.peer.ID }) {
			return err
		}
		return p.node.Remove(ctx, at.peer.ID, false)
	})
}

// atLeader does something at the node that leads.
func (n *nemesis) atLeader(ctx context.Context, fn func(context.Context, *process) error) error {
	leader := n.leader()
	if leader == nil {
		return errors.New("nobody leads")
	}
	p := leader.running()
	if p == nil {
		return errors.New("the leader has gone")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return fn(ctx, p)
}
