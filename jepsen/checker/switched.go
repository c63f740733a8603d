package checker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// switched is one partition that brokers keep replicas of: all that was seen of it, and
// what was done to it.
type switched struct {
	name  string
	seen  []sighted
	acts  []acted
	flags []flagAsked
	final []sighted // by the nodes, at the end
}

// flagAsked is a request for the flag that may have been carried out: remote storage
// held all up to highest.
type flagAsked struct {
	line    int
	record  *history.Record
	highest int64
}

// sighted is the partition in one answer.
type sighted struct {
	line   int
	record *history.Record
	ops.DescribedPartition
}

// acted is a write that was carried out: from its index on the partition is at least so
// far.
type acted struct {
	line   int
	record *history.Record
	stage  int
	seal   int64 // -1: not said
	// unclean: a leader was chosen from outside the ISR.
	unclean bool
}

// stages are the states of a switch in their order; it never goes back.
var stages = map[ops.PartitionState]int{
	ops.StateClassic: 0, ops.StateSwitchPending: 1, ops.StatePrefixWaitingForUpload: 2, ops.StatePrefixInRemoteStorage: 3,
}

// checkSwitched checks all partitions of the group.
func checkSwitched(v *Verdict, records []*history.Record) error {
	all := map[string]*switched{}
	of := func(topic store.TopicID, partition int32) *switched {
		name := history.Log(topic, partition)
		if all[name] == nil {
			all[name] = &switched{name: name}
		}
		return all[name]
	}
	for i, r := range records {
		if r.Group != history.GroupSwitch {
			continue
		}
		if unexpected[r.Error] && r.Outcome == history.Refused && r.Error != ops.StorageFull {
			v.fail(CheckAnswers, []int{i + 1}, "%s answered %s: %s", r.Op, r.Error, r.Message)
		}
		if err := errors.Join(addSwitched(of, i+1, r), addFlag(of, i+1, r)); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for _, name := range sortedNames(all) {
		all[name].check(v)
	}
	return checkBrokerEpochs(v, records)
}

func sortedNames(all map[string]*switched) (names []string) {
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func addSwitched(of func(store.TopicID, int32) *switched, line int, r *history.Record) error {
	if r.Outcome != history.OK {
		return nil
	}
	switch r.Op {
	case "describe-partitions":
		return decoded(r, func(_ *ops.DescribePartitionsRequest, a *ops.DescribePartitionsResponse) {
			for _, p := range a.Responses {
				s := of(p.TopicID, p.Partition)
				if s.seen = append(s.seen, sighted{line, r, p}); r.Final {
					s.final = append(s.final, sighted{line, r, p})
				}
			}
		})
	case "commit-seal":
		return decoded(r, func(q *ops.CommitSealRequest, a *ops.CommitSealResponse) {
			if c := q.Requests[0]; a.Responses[0].Error == ops.None {
				s := of(c.TopicID, c.Partition)
				s.acts = append(s.acts, acted{line, r, stages[ops.StatePrefixWaitingForUpload], c.DisklessStartOffset, false})
			}
		})
	case "commit-prefix-in-remote-storage":
		return decoded(r, func(q *ops.CommitPrefixInRemoteStorageRequest, a *ops.CommitPrefixInRemoteStorageResponse) {
			if c := q.Requests[0]; a.Responses[0].Error == ops.None {
				s := of(c.TopicID, c.Partition)
				s.acts = append(s.acts, acted{line, r, stages[ops.StatePrefixInRemoteStorage], -1, false})
			}
		})
	case "elect-leader":
		return decoded(r, func(q *ops.ElectLeaderRequest, a *ops.ElectLeaderResponse) {
			if q.Election == ops.ElectionUnclean && a.Error == ops.None {
				s := of(q.TopicID, q.Partition)
				s.acts = append(s.acts, acted{line, r, 0, -1, true})
			}
		})
	}
	return nil
}

func addFlag(of func(store.TopicID, int32) *switched, line int, r *history.Record) error {
	if r.Op != "commit-prefix-in-remote-storage" || r.Outcome == history.Refused {
		return nil
	}
	return decoded(r, func(q *ops.CommitPrefixInRemoteStorageRequest, _ *ops.CommitPrefixInRemoteStorageResponse) {
		c := q.Requests[0]
		s := of(c.TopicID, c.Partition)
		s.flags = append(s.flags, flagAsked{line, r, c.HighestRemoteOffset})
	})
}

func (s *switched) check(v *Verdict) {
	slices.SortStableFunc(s.seen, func(a, b sighted) int { return cmp.Compare(a.record.AppliedIndex, b.record.AppliedIndex) })
	s.checkOrder(v)
	s.checkLeaders(v)
	s.checkActs(v)
	s.checkFresh(v)
	s.checkFlag(v)
	for _, f := range s.final[min(1, len(s.final)):] {
		if !f.same(&s.final[0]) {
			v.fail(CheckReplicas, []int{s.final[0].line, f.line}, "%s: nodes %s and %s describe it differently at the end", s.name, s.final[0].record.Node, f.record.Node)
		}
	}
}

// checkOrder checks that in the order of the log epochs grow, the switch goes on, and
// what has one partition epoch is the same.
func (s *switched) checkOrder(v *Verdict) {
	for i := 1; i < len(s.seen); i++ {
		a, b := &s.seen[i-1], &s.seen[i]
		lines := []int{a.line, b.line}
		switch {
		case a.PartitionEpoch == b.PartitionEpoch && !b.same(a):
			v.fail(CheckLeaders, lines, "%s: partition epoch %d is two things: %s, and %s", s.name, a.PartitionEpoch, a, b)
		case a.PartitionEpoch > b.PartitionEpoch || a.LeaderEpoch > b.LeaderEpoch:
			v.fail(CheckLeaders, lines, "%s: epochs go back from %s at index %d to %s at %d", s.name, a, a.record.AppliedIndex, b, b.record.AppliedIndex)
		case stages[a.State] > stages[b.State], a.ClassicToDisklessStartOffset >= 0 && a.ClassicToDisklessStartOffset != b.ClassicToDisklessStartOffset,
			a.ClassicPrefixInRemoteStorage && !b.ClassicPrefixInRemoteStorage:
			v.fail(CheckSwitch, lines, "%s: the switch goes back from %s at index %d to %s at %d", s.name, a, a.record.AppliedIndex, b, b.record.AppliedIndex)
		}
	}
}

// checkLeaders checks that no two brokers led in one epoch, and that a leader is in the
// ISR.
func (s *switched) checkLeaders(v *Verdict) {
	led := map[int32]*sighted{}
	for i := range s.seen {
		p := &s.seen[i]
		if p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader) {
			v.fail(CheckLeaders, []int{p.line}, "%s: its leader is not in the ISR: %s", s.name, p)
		}
		if first := led[p.LeaderEpoch]; first == nil {
			led[p.LeaderEpoch] = p
		} else if first.Leader != p.Leader {
			v.fail(CheckLeaders, []int{first.line, p.line}, "%s: two led in leader epoch %d: %d and %d", s.name, p.LeaderEpoch, first.Leader, p.Leader)
		}
	}
}

// checkActs holds what was carried out at an index against what was seen before and
// after it. What was answered because it stood already has no index.
func (s *switched) checkActs(v *Verdict) {
	for _, a := range s.acts {
		at := a.record.Index
		if at == 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(s.seen, at, func(p sighted, at uint64) int { return cmp.Compare(p.record.AppliedIndex, at) })
		if i < len(s.seen) {
			p := &s.seen[i]
			if stages[p.State] < a.stage || a.seal >= 0 && p.ClassicToDisklessStartOffset != a.seal {
				v.fail(CheckSwitch, []int{a.line, p.line}, "%s: %s was carried out at index %d, and at %d it is %s", s.name, a.record.Op, at, p.record.AppliedIndex, p)
			}
			if a.unclean && i > 0 && s.seen[i-1].State.ClassicPrefixOnlyOnLocalDisks() && p.State.ClassicPrefixOnlyOnLocalDisks() {
				v.fail(CheckUnclean, []int{s.seen[i-1].line, a.line, p.line}, "%s: a leader was chosen from outside the ISR while the prefix was on local disks only: %s", s.name, p)
			}
		}
	}
}

// checkFlag checks that where the flag was seen somebody had asked for it who had all
// below the seal in remote storage.
func (s *switched) checkFlag(v *Verdict) {
	for i := range s.seen {
		p := &s.seen[i]
		if !p.ClassicPrefixInRemoteStorage {
			continue
		}
		var early []int
		for _, f := range s.flags {
			if f.record.Invoke >= p.record.Return {
				continue
			}
			if f.highest >= p.ClassicToDisklessStartOffset-1 {
				return
			}
			early = append(early, f.line)
		}
		v.fail(CheckEarlyFlag, append(early, p.line), "%s: nobody had all below the seal in remote storage: %s", s.name, p)
		return
	}
}

// checkFresh checks that no linearizable read saw less than what had been answered
// before it began.
func (s *switched) checkFresh(v *Verdict) {
	byEnd := slices.Clone(s.seen)
	slices.SortStableFunc(byEnd, func(a, b sighted) int { return cmp.Compare(a.record.Return, b.record.Return) })
	for i := range s.seen {
		p := &s.seen[i]
		if p.record.Stale {
			continue
		}
		for j := range byEnd {
			e := &byEnd[j]
			if e.record.Return >= p.record.Invoke {
				break
			}
			if e.PartitionEpoch > p.PartitionEpoch {
				v.fail(CheckFresh, []int{e.line, p.line}, "%s: a linearizable read saw %s, after %s had been seen", s.name, p, e)
				break
			}
		}
		for _, a := range s.acts {
			if a.record.Return < p.record.Invoke && stages[p.State] < a.stage {
				v.fail(CheckFresh, []int{a.line, p.line}, "%s: a linearizable read saw %s, after %s had been carried out", s.name, p, a.record.Op)
			}
		}
	}
}

// same says whether two answers describe the same registration; clients are told of
// brokers too, which may differ.
func (p *sighted) same(o *sighted) bool {
	return p.State == o.State && slices.Equal(p.Replicas, o.Replicas) && slices.Equal(p.ISR, o.ISR) && p.Leader == o.Leader && p.LeaderEpoch == o.LeaderEpoch &&
		p.PartitionEpoch == o.PartitionEpoch && p.ClassicToDisklessStartOffset == o.ClassicToDisklessStartOffset && p.DisklessLeaderEpoch == o.DisklessLeaderEpoch
}

func (p *sighted) String() string {
	return fmt.Sprintf("%s, leader %d in epoch %d, ISR %v, partition epoch %d, seal %d", p.State, p.Leader, p.LeaderEpoch, p.ISR, p.PartitionEpoch, p.ClassicToDisklessStartOffset)
}
