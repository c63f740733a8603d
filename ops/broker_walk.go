package ops

import "github.com/cpnode/cpnode/store"

// A change of a broker goes over all partitions that it has a replica of, which may be
// thousands: the first entry changes the broker's row and sets a durable cursor, and
// each entry takes the partitions of its budget. Whoever leads can go on from there.

// brokerCommand is a command that changes a broker and begins a walk.
type brokerCommand interface {
	Command
	decide(*store.ReadTx) (brokerChange, error)
}

// brokerChange is what such a command comes to on a given state.
type brokerChange struct {
	answer   Code
	epoch    int64        // of the broker, -1 when it is refused
	changes  bool         // else the answer is all
	becomes  store.Broker // when it changes, with the walk that this takes
	newEpoch bool         // becomes gets the next epoch
	notYet   bool         // an earlier walk must end first
}

// walked is the result of one entry.
type walked struct {
	answer  Code
	epoch   int64
	settled bool // the command was carried out or refused; false for a part of a walk
	more    bool // the walk has partitions left
}

// applyBroker carries out the command of a broker and visits at most rows of its
// partitions.
func applyBroker(tx *store.WriteTx, cmd brokerCommand, id int32, rows int64) (any, error) {
	c, err := cmd.decide(&tx.ReadTx)
	if err != nil || c.notYet {
		return walked{}, err
	}
	if !c.changes {
		return walked{answer: c.answer, epoch: c.epoch, settled: true}, nil
	}
	if c.newEpoch {
		c.becomes.Epoch = tx.NextBrokerEpoch()
	}
	more, err := walk(tx, id, c.becomes, rows)
	return walked{c.answer, c.becomes.Epoch, true, more}, err
}

// walk visits at most rows partitions of a broker whose row is b, and writes that.
func walk(tx *store.WriteTx, id int32, b store.Broker, rows int64) (more bool, err error) {
	if err := tx.PutBroker(id, b); err != nil || b.Walk.Kind == store.WalkNone { // elections look at it
		return false, err
	}
	next, more, err := replicasFrom(&tx.ReadTx, id, b.Walk.Next, max(1, rows))
	if err != nil {
		return false, err
	}
	visit := next
	if more {
		b.Walk.Next, visit = next[len(next)-1], next[:len(next)-1]
	}
	for _, k := range visit {
		if err := visitReplica(tx, id, b.Walk.Kind, k); err != nil {
			return false, err
		}
	}
	if !more {
		b.Walk = store.Walk{}
	}
	return more, tx.PutBroker(id, b)
}

// replicasFrom is the next partitions of a broker from a key on: with more, one
// beyond the limit, which is where the next entry begins.
func replicasFrom(tx *store.ReadTx, id int32, from store.LogKey, limit int64) (next []store.LogKey, more bool, err error) {
	err = tx.ReplicasOf(id, from, func(k store.LogKey, _ bool) bool {
		next = append(next, k)
		more = int64(len(next)) > limit
		return !more
	})
	return next, more, err
}

// visitReplica brings one partition in line with what became of one of its brokers.
func visitReplica(tx *store.WriteTx, id int32, kind store.WalkKind, k store.LogKey) error {
	p, err := findPartition(&tx.ReadTx, LogRef{k.Topic, k.Partition})
	if err != nil || p.problem != None {
		return err
	}
	r := p.reg
	if r.ISR, err = p.isrAfter(&tx.ReadTx, id, kind); err != nil {
		return err
	}
	if err := elect(&tx.ReadTx, &r); err != nil {
		return err
	}
	if len(r.ISR) == len(p.reg.ISR) && r.Leader == p.reg.Leader {
		return nil
	}
	return p.put(tx, r, false)
}

// isrAfter is the ISR without or with the broker, as the walk wants it. The complete
// prefix of a partition that is not diskless may be with its last member alone, which
// therefore stays, unless its disks are gone.
func (p *partition) isrAfter(tx *store.ReadTx, id int32, kind store.WalkKind) ([]int32, error) {
	others := without(p.reg.ISR, id)
	switch diskless := p.state().Diskless(); {
	case kind == store.WalkUnfence && diskless:
		return only(p.reg.Replicas, append(others, id)), nil
	case kind == store.WalkUnfence:
		return p.reg.ISR, nil
	case kind == store.WalkWipe && !diskless:
		return others, nil
	}
	live, err := liveOf(tx, others)
	if err != nil || len(live) == 0 {
		return p.reg.ISR, err
	}
	return others, nil
}

// without is the ids but one.
func without(ids []int32, id int32) []int32 {
	kept := []int32{}
	for _, other := range ids {
		if other != id {
			kept = append(kept, other)
		}
	}
	return kept
}

// walkSteps logs the command, if it changes something, and then what is left of the
// walk.
type walkSteps struct {
	id      int32
	rows    int64
	command brokerCommand // nil once it is settled
	outcome walked
	follow  bool // also goes on with a walk that another request has begun
	respond func(walked) any
}

func (s *walkSteps) Next(tx *store.ReadTx, _ int64) (Command, error) {
	if s.command == nil {
		return s.advance(tx)
	}
	c, err := s.command.decide(tx)
	switch {
	case err != nil:
		return nil, err
	case c.notYet:
		return s.advance(tx)
	case c.changes:
		return s.command, nil
	}
	s.command, s.outcome = nil, walked{answer: c.answer, epoch: c.epoch}
	if !s.follow {
		return nil, nil
	}
	return s.advance(tx)
}

// advance is the next part of the broker's walk, nil where it has none.
func (s *walkSteps) advance(tx *store.ReadTx) (Command, error) {
	b, ok, err := tx.Broker(s.id)
	if err != nil || !ok || b.Walk.Kind == store.WalkNone {
		return nil, err
	}
	return &advanceBroker{s.id, s.rows}, nil
}

func (s *walkSteps) Took(result any) bool {
	w := result.(walked)
	if w.settled {
		s.command, s.outcome = nil, w
	}
	return s.command == nil && !w.more
}

func (s *walkSteps) Answer() any { return s.respond(s.outcome) }
