package checker

import (
	"cmp"
	"slices"
	"sort"
)

// evidence is that from a time on the log was at least so far.
type evidence struct {
	at         int64 // on the history's clock
	start, end int64
	line       int
}

// collectEvidence is what answers said of the log, in the order of time. A stale read
// counts too: what it saw was committed.
func (l *log) collectEvidence() (all []evidence) {
	for _, c := range l.commits {
		for _, a := range c.attempts {
			if a.answer != nil {
				all = append(all, evidence{a.record.Return, a.answer.LogStartOffset, a.answer.AssignedBaseOffset + c.records, a.line})
			}
		}
	}
	for _, d := range l.deletes {
		if d.answer != nil {
			all = append(all, evidence{d.record.Return, d.answer.LogStartOffset, d.answer.LogStartOffset, d.line})
		}
	}
	for _, r := range l.reads {
		all = append(all, evidence{r.record.Return, r.start, r.end, r.line})
	}
	slices.SortFunc(all, func(a, b evidence) int { return cmp.Compare(a.at, b.at) })
	return all
}

// checkFresh checks that no linearizable read saw less than somebody had been told
// before it began.
func (l *log) checkFresh(v *Verdict) {
	all := l.evidence
	// The evidence with the largest start, and with the largest end, so far.
	starts, ends := make([]evidence, len(all)), make([]evidence, len(all))
	for i, e := range all {
		starts[i], ends[i] = e, e
		if i > 0 && starts[i-1].start >= e.start {
			starts[i] = starts[i-1]
		}
		if i > 0 && ends[i-1].end >= e.end {
			ends[i] = ends[i-1]
		}
	}
	for _, r := range l.reads {
		before := sort.Search(len(all), func(i int) bool { return all[i].at >= r.record.Invoke })
		if r.record.Stale || before == 0 {
			continue
		}
		if s := starts[before-1]; r.start >= 0 && r.start < s.start {
			v.fail(CheckFresh, []int{s.line, r.line}, "%s: a linearizable %s saw log start %d, which had been %d before it began", l.name, r.record.Op, r.start, s.start)
		}
		if e := ends[before-1]; r.end >= 0 && r.end < e.end {
			v.fail(CheckFresh, []int{e.line, r.line}, "%s: a linearizable %s saw high watermark %d, which had been %d before it began", l.name, r.record.Op, r.end, e.end)
		}
	}
}

// checkMinIndex checks that no stale read answered from a state older than it asked.
func (l *log) checkMinIndex(v *Verdict) {
	for _, r := range l.reads {
		if r.record.AppliedIndex < r.record.MinIndex {
			v.fail(CheckMinIndex, []int{r.line}, "%s: a stale %s asked for index %d, and saw %d", l.name, r.record.Op, r.record.MinIndex, r.record.AppliedIndex)
		}
	}
}

// checkIndex checks that every read saw the writes at or below the index that it
// says it saw, and none above: for stale reads all that is promised.
func (l *log) checkIndex(v *Verdict) {
	for _, r := range l.reads {
		if r.end >= 0 {
			l.checkEndAt(v, r)
		}
		if r.start >= 0 {
			l.checkStartAt(v, r)
		}
	}
}

func (l *log) checkEndAt(v *Verdict, r *read) {
	index := r.record.AppliedIndex
	for _, c := range l.commits {
		for _, a := range c.attempts {
			if a.answer == nil || a.record.Index == 0 {
				continue
			}
			base := a.answer.AssignedBaseOffset
			// The index of a repeated answer is later than the effect.
			first := !a.replayed && !a.answer.Duplicate
			if a.record.Index <= index && r.end < base+c.records || first && a.record.Index > index && r.end > base {
				v.fail(CheckIndex, []int{a.line, r.line}, "%s: %s at index %d has offsets %d to %d; a read at index %d of node %s saw high watermark %d",
					l.name, c.id, a.record.Index, base, base+c.records-1, index, r.record.Node, r.end)
			}
		}
	}
}

func (l *log) checkStartAt(v *Verdict, r *read) {
	for _, d := range l.deletes {
		if d.answer != nil && d.record.Index > 0 && d.record.Index <= r.record.AppliedIndex && r.start < d.answer.LogStartOffset {
			v.fail(CheckIndex, []int{d.line, r.line}, "%s: records before %d were deleted at index %d; a read at index %d of node %s saw log start %d",
				l.name, d.answer.LogStartOffset, d.record.Index, r.record.AppliedIndex, r.record.Node, r.start)
		}
	}
}
