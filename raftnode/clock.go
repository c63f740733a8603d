package raftnode

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
)

const (
	// clockAge is how old what this node knows of another's clock may be when it
	// stamps an entry.
	clockAge = 5 * time.Second
	// clockAsk and clockLook are how often a new leader asks for clocks, and looks
	// at the answers.
	clockAsk  = 200 * time.Millisecond
	clockLook = 5 * time.Millisecond
)

// clockOf is a voter's clock less this node's, as far as it is known.
type clockOf struct {
	id     raft.ServerID
	offset time.Duration
	known  bool
}

// clocks is a line for each voter. What was measured is corrected by what this
// node's own clock was moved by since then, which also shows when the machine was
// suspended.
func (n *Node) clocks() []clockOf {
	var all []clockOf
	wall := n.clock()
	for _, s := range voters(n.servers()) {
		c := clockOf{id: s.ID}
		if s.ID == n.id() {
			c.known = true
		} else if p := n.polls.of(s.ID); p.report != nil {
			passed := time.Since(p.at)
			moved := time.Duration(wall-p.clock)*time.Millisecond - passed
			c.offset, c.known = p.offset-moved, passed <= clockAge
		}
		all = append(all, c)
	}
	return all
}

// agrees says whether a majority of the voters' clocks is near a clock with this
// offset.
func (n *Node) agrees(all []clockOf, offset time.Duration) bool {
	near := 0
	for _, c := range all {
		if c.known && (c.offset-offset).Abs() <= n.config.ClockMaxSkew {
			near++
		}
	}
	return near > len(all)/2
}

// clockProblem says why this node must stamp no entry: retention, for one, believes
// the clock of the leader. off tells a clock that is off from one that cannot be
// compared.
func (n *Node) clockProblem() (why string, off bool) {
	all := n.clocks()
	if n.agrees(all, 0) {
		return "", false
	}
	known := 0
	far := ""
	for _, c := range all {
		if c.known {
			known++
		}
		if c.known && c.offset.Abs() > n.config.ClockMaxSkew {
			far += fmt.Sprintf(", %s differs by %s", nameOf(c.id), c.offset.Round(time.Millisecond))
		}
	}
	if known <= len(all)/2 {
		return "the clocks of a majority are not known to this node", false
	}
	return fmt.Sprintf("this node's clock is more than %s from a majority's%s", n.config.ClockMaxSkew, far), true
}

// refusesClock is the answer to a write while the clock must not be used.
func (n *Node) refusesClock() error {
	if why, _ := n.clockProblem(); why != "" {
		return ops.Errorf(ops.NoLeader, "%s", why)
	}
	return nil
}

// awaitClocks asks the members for their clocks until a majority's are near: a new
// leader stamps nothing before.
func (n *Node) awaitClocks(ctx context.Context) error {
	var asked time.Time
	for {
		if why, _ := n.clockProblem(); why == "" {
			return nil
		}
		if time.Since(asked) >= clockAsk {
			asked = time.Now()
			n.pollMembers(ctx)
		}
		if err := wait(ctx, clockLook); err != nil {
			return err
		}
	}
}

func (n *Node) clockUnfit() *unfit {
	if why, off := n.clockProblem(); off {
		return &unfit{unfitClock, why, false}
	}
	return nil
}

// clockSkew is this node's clock less the median of the voters', in seconds, as the
// leader knows them.
func (n *Node) clockSkew() float64 {
	var known []time.Duration
	for _, c := range n.clocks() {
		if c.known {
			known = append(known, c.offset)
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return -known[len(known)/2].Seconds()
}
