package checker

import (
	"cmp"
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
)

// place is where a commit is known to be, and the first line that says so.
type place struct {
	base, last int64
	key        string // of the object, empty when only the answer is known
	line       int
	commit     *commit
}

// places are all that attempts and reads say about where the commit is.
func (c *commit) places() (all []place) {
	for _, a := range c.attempts {
		if a.answer != nil {
			base := a.answer.AssignedBaseOffset
			all = append(all, place{base, base + c.records - 1, "", a.line, c})
		}
	}
	for _, s := range c.sightings {
		all = append(all, place{s.batch.BaseOffset, s.batch.LastOffset, s.batch.ObjectKey, s.line, c})
	}
	return all
}

// acknowledged is the first answer to the commit, nil when there is none.
func (c *commit) acknowledged() *attempt {
	var first *attempt
	for i := range c.attempts {
		a := &c.attempts[i]
		if a.answer != nil && (first == nil || a.record.Return < first.record.Return) {
			first = a
		}
	}
	return first
}

// lines are those of all attempts.
func (c *commit) lines() (all []int) {
	for _, a := range c.attempts {
		all = append(all, a.line)
	}
	return all
}

// checkCommits checks each commit by itself: one place, one object, the size that
// was sent, no effect of what was refused.
func (l *log) checkCommits(v *Verdict) {
	for _, c := range l.commits {
		places := c.places()
		if len(places) == 0 {
			continue
		}
		l.checkRefused(v, c)
		first, key := places[0], ""
		for _, p := range places {
			if p.base != first.base || p.last != first.last {
				v.fail(CheckRetries, []int{first.line, p.line}, "%s: %s is at offsets %d to %d and at %d to %d", l.name, c.id, first.base, first.last, p.base, p.last)
				break
			}
			if key == "" {
				key = p.key
			}
			if p.key != "" && p.key != key {
				v.fail(CheckRetries, []int{first.line, p.line}, "%s: %s is in object %s and in %s", l.name, c.id, key, p.key)
				break
			}
		}
		for _, s := range c.sightings {
			if s.batch.ByteSize != c.size || s.batch.LastOffset-s.batch.BaseOffset+1 != c.records {
				v.fail(CheckRetries, append(c.lines(), s.line), "%s: %s was sent with %d records and %d bytes, found with offsets %d to %d and %d bytes",
					l.name, c.id, c.records, c.size, s.batch.BaseOffset, s.batch.LastOffset, s.batch.ByteSize)
				break
			}
		}
	}
}

// checkRefused checks that no object was found, and no answer repeated, whose earlier
// attempts were all refused.
func (l *log) checkRefused(v *Verdict, c *commit) {
	for _, s := range c.sightings {
		if lines, refused := c.refusedBefore(s.record, func(a *attempt) bool { return a.key == s.batch.ObjectKey }); refused {
			v.fail(CheckRefused, append(lines, s.line), "%s: %s was refused, yet it is at offset %d", l.name, s.batch.ObjectKey, s.batch.BaseOffset)
			return
		}
	}
	for _, again := range c.attempts {
		if again.answer == nil || !again.replayed && !again.answer.Duplicate {
			continue
		}
		// A repeated answer is that of the same object, a duplicate one of another.
		if lines, refused := c.refusedBefore(again.record, func(a *attempt) bool { return (a.key == again.key) != again.answer.Duplicate }); refused {
			v.fail(CheckRefused, append(lines, again.line), "%s: %s was refused, yet the next attempt finds it at offset %d", l.name, c.id, again.answer.AssignedBaseOffset)
			return
		}
	}
}

// refusedBefore says whether all of the chosen attempts that were sent before the
// record ended, other than itself, were refused; lines are theirs.
func (c *commit) refusedBefore(r *history.Record, chosen func(*attempt) bool) (lines []int, refused bool) {
	refused = true
	for i := range c.attempts {
		a := &c.attempts[i]
		if a.record == r || !chosen(a) || a.record.Invoke > r.Return {
			continue
		}
		lines = append(lines, a.line)
		refused = refused && a.record.Outcome == history.Refused
	}
	return lines, refused
}

// placed is where commits are known to be, by offset, one place each.
func (l *log) placed() (all []place) {
	for _, c := range l.commits {
		if places := c.places(); len(places) > 0 {
			all = append(all, places[0])
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.base, b.base) })
	return all
}

// checkOffsets checks that no offset was given to two commits.
func (l *log) checkOffsets(v *Verdict) {
	all := l.placed()
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; b.base <= a.last {
			v.fail(CheckOffsets, []int{a.line, b.line}, "%s: offset %d was given to %s and to %s", l.name, b.base, a.commit.id, b.commit.id)
		}
	}
}

// logOf is the log that each commit is for.
func (p *parsed) logOf() map[*commit]*log {
	of := map[*commit]*log{}
	for _, l := range p.logs {
		for _, c := range l.commits {
			of[c] = l
		}
	}
	return of
}

// checkWhole checks that the batches of one file took effect all, or none.
func (p *parsed) checkWhole(v *Verdict) {
	logOf := p.logOf()
	missing := func(c *commit) bool {
		_, mayBe := logOf[c].fillings[c]
		return len(c.places()) == 0 && !mayBe
	}
	told := map[*commit]bool{} // by the first batch that is missing; retries are the same
	for _, file := range p.files {
		there := slices.IndexFunc(file, func(c *commit) bool { return len(c.places()) > 0 })
		not := slices.IndexFunc(file, missing)
		if there >= 0 && not >= 0 && !told[file[not]] {
			a, b := file[there], file[not]
			told[b] = true
			v.fail(CheckWhole, append(a.lines(), a.places()[0].line), "%v took effect in %s, but not in %s", a.keys, logOf[a].name, logOf[b].name)
		}
	}
}
