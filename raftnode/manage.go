package raftnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

// manage is the leader's care for its members, until ctx ends: it asks them how
// they are and changes the configuration, one step at a time, as their answers ask
// for. What is left undone when leadership ends, the next leader sees as it is.
func (n *Node) manage(ctx context.Context) {
	for {
		n.pollMembers(ctx)
		if wait(ctx, n.config.pollInterval) != nil {
			return
		}
		if _, ok := n.nextChange(); ok {
			n.takeStep(ctx)
		}
	}
}

// takeStep makes the next change. What it is is looked at again once nobody else
// changes the members: a node that was just removed must not be promoted.
func (n *Node) takeStep(ctx context.Context) {
	err := n.changeAlone(ctx, func(ctx context.Context) error {
		c, ok := n.nextChange()
		if !ok {
			return nil
		}
		err := n.carryOut(ctx, c)
		if err == nil {
			n.logger.Info("changed the members", "node", nameOf(c.id), "instance", instanceOf(c.id), "reason", c.reason)
			return nil
		}
		return fmt.Errorf("%s, instance %s: %s: %w", nameOf(c.id), instanceOf(c.id), c.reason, err)
	})
	if err != nil && ctx.Err() == nil {
		n.logger.Warn("cannot change the members yet", "error", err)
	}
}

// change is one step from a configuration to the next.
type change struct {
	id     raft.ServerID
	reason string
	apply  func(*raft.Raft) raft.IndexFuture
}

func addVoter(id raft.ServerID, addr raft.ServerAddress, reason string) change {
	return change{id, reason, func(r *raft.Raft) raft.IndexFuture { return r.AddVoter(id, addr, 0, changeTimeout) }}
}

func addLearner(id raft.ServerID, addr raft.ServerAddress, reason string) change {
	return change{id, reason, func(r *raft.Raft) raft.IndexFuture { return r.AddNonvoter(id, addr, 0, changeTimeout) }}
}

func removeServer(id raft.ServerID, reason string) change {
	return change{id, reason, func(r *raft.Raft) raft.IndexFuture { return r.RemoveServer(id, 0, changeTimeout) }}
}

// nextChange is what the answers of the members ask for first.
func (n *Node) nextChange() (change, bool) {
	servers := n.servers()
	for _, rule := range []func([]raft.Server) (change, bool){n.replaced, n.moved, n.promotable, n.dead} {
		if c, ok := rule(servers); ok {
			return c, true
		}
	}
	return change{}, false
}

// replaced finishes what readmit began. Of two directories under one name the one
// added later stays, unless the other has answered since: what it said before may
// have been just before it was lost.
func (n *Node) replaced(servers []raft.Server) (change, bool) {
	for i, old := range servers {
		at := slices.IndexFunc(servers[i+1:], func(s raft.Server) bool { return nameOf(s.ID) == nameOf(old.ID) })
		if at < 0 {
			continue
		}
		added := servers[i+1+at].ID
		switch since := n.polls.of(added).since; {
		case !since.IsZero() && n.polls.of(old.ID).at.After(since):
			return removeServer(added, "the directory that it would replace answers"), true
		case !n.reachable(old.ID) && n.outvotes(servers, old.ID):
			return removeServer(old.ID, "replaced by another directory"), true
		}
	}
	return change{}, false
}

// moved writes down where a member says it is reached, and was.
func (n *Node) moved(servers []raft.Server) (change, bool) {
	for _, s := range servers {
		addr := n.advertised
		if s.ID != n.id() {
			p := n.polls.of(s.ID)
			if p.report == nil || p.report.Addr != p.addr {
				continue
			}
			addr = p.addr
		}
		if addr == string(s.Address) || usesAddress(servers, addr) {
			continue
		}
		if s.Suffrage == raft.Voter {
			return addVoter(s.ID, raft.ServerAddress(addr), "its address is "+addr), true
		}
		return addLearner(s.ID, raft.ServerAddress(addr), "its address is "+addr), true
	}
	return change{}, false
}

func usesAddress(servers []raft.Server, addr string) bool {
	return slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.Address) == addr })
}

// promotable is a learner whose state has caught up.
func (n *Node) promotable(servers []raft.Server) (change, bool) {
	for _, s := range servers {
		twice := slices.ContainsFunc(servers, func(o raft.Server) bool { return o.ID != s.ID && nameOf(o.ID) == nameOf(s.ID) })
		if s.Suffrage != raft.Voter && !twice && n.polls.of(s.ID).caughtUp >= pollsToPromote {
			return addVoter(s.ID, s.Address, "it has caught up"), true
		}
	}
	return change{}, false
}

// minVoters are left by the removal of dead ones: fewer survive no failure.
const minVoters = 3

// dead is a voter that was silent for too long.
func (n *Node) dead(servers []raft.Server) (change, bool) {
	limit := n.config.DeadNodeCleanup
	all := voters(servers)
	if limit == 0 || len(all) <= minVoters {
		return change{}, false
	}
	for _, s := range all {
		p := n.polls.of(s.ID)
		last := p.since
		if p.at.After(last) {
			last = p.at
		}
		if s.ID != n.id() && !last.IsZero() && time.Since(last) >= limit && n.outvotes(servers, s.ID) {
			return removeServer(s.ID, "it has not answered for "+limit.String()), true
		}
	}
	return change{}, false
}

// outvotes says whether the voters that answer are a majority once id is gone.
func (n *Node) outvotes(servers []raft.Server, id raft.ServerID) bool {
	rest, answer := 0, 0
	for _, s := range voters(servers) {
		if s.ID == id {
			continue
		}
		rest++
		if n.reachable(s.ID) {
			answer++
		}
	}
	return answer > rest/2
}

// changeAlone runs fn, which decides on changes of the members and carries them out,
// while nobody else on this node does: what it decides on stays as it is.
func (n *Node) changeAlone(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	select {
	case n.changing <- struct{}{}:
		defer func() { <-n.changing }()
	case <-ctx.Done():
		return ops.Errorf(ops.NoLeader, "another change of the members is under way: %v", ctx.Err())
	}
	return fn(ctx)
}

// carryOut makes one change of the configuration, and waits until it is committed.
// It is called within changeAlone.
func (n *Node) carryOut(ctx context.Context, c change) error {
	err := await(ctx, func() error { return applyError(c.apply(n.raft).Error()) })
	if err != nil && ctx.Err() != nil {
		return unknown("the configuration may have been changed: %v", err)
	}
	return err
}
