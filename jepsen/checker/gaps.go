package checker

import (
	"math"
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
)

// gap is a run of offsets that hold no known commit: what was there was deleted
// before anybody saw it. It was filled by until, when somebody heard of a later
// offset.
type gap struct{ from, to, until int64 }

// filling is what may have become of a commit that nobody was told of and no read
// found.
type filling struct {
	base  int64 // -1 when it is not known
	until int64 // it had its effect by then, when base is known
}

// fill finds out which of these commits may have had an effect, and where: those
// that fill a gap below the final log start, alone or together. All others had none.
// Without final reads nothing is known.
func (l *log) fill() map[*commit]filling {
	all := map[*commit]filling{}
	start, read := l.finalStart()
	if !read {
		for _, c := range l.unplaced(math.MaxInt64) {
			all[c] = filling{-1, math.MaxInt64}
		}
		return all
	}
	for _, g := range l.gaps(start) {
		candidates := l.unplaced(g.until)
		var chosen []*commit
		for i, c := range candidates {
			if reaches(g.to-g.from-c.records, slices.Delete(slices.Clone(candidates), i, i+1)) {
				chosen = append(chosen, c)
			}
		}
		for _, c := range chosen {
			all[c] = filling{-1, math.MaxInt64}
		}
		if len(chosen) == 1 {
			all[chosen[0]] = filling{g.from, g.until}
		}
	}
	return all
}

// finalStart is the log start that the final reads said; ok says that there were
// some.
func (l *log) finalStart() (start int64, ok bool) {
	for _, r := range l.reads {
		if r.record.Final {
			start, ok = max(start, r.start), true
		}
	}
	return start, ok
}

// gaps are those below the final log start, in order.
func (l *log) gaps(start int64) (all []gap) {
	next := int64(0)
	for _, p := range l.placed() {
		if p.base > next && next < start {
			all = append(all, gap{next, p.base, l.heardOf(p.base)})
		}
		next = max(next, p.last+1)
	}
	if next < start {
		all = append(all, gap{next, start, l.heardOf(start)})
	}
	return all
}

// heardOf is when somebody first knew that the log ends there or later.
func (l *log) heardOf(end int64) int64 {
	for _, e := range l.evidence {
		if e.end >= end {
			return e.at
		}
	}
	return math.MaxInt64
}

// unplaced are the commits sent before that time of which nobody knows where they
// are, except those that were refused.
func (l *log) unplaced(before int64) (all []*commit) {
	for _, c := range l.commits {
		if len(c.places()) == 0 && c.begin() < before {
			all = append(all, c)
		}
	}
	return all
}

// begin is when the first attempt that was not refused was sent.
func (c *commit) begin() int64 {
	begin := int64(math.MaxInt64)
	for _, a := range c.attempts {
		if a.record.Outcome != history.Refused {
			begin = min(begin, a.record.Invoke)
		}
	}
	return begin
}

// reaches says whether some of the commits, or none, have so many records in all.
func reaches(records int64, commits []*commit) bool {
	sums := map[int64]bool{0: true}
	for _, c := range commits {
		var more []int64
		for sum := range sums {
			if sum+c.records <= records {
				more = append(more, sum+c.records)
			}
		}
		for _, sum := range more {
			sums[sum] = true
		}
	}
	return sums[records]
}
