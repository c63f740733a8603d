package checker

import (
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
)

// fenced is an attempt of a commit that was refused because its object key is fenced.
type fenced struct {
	line   int
	record *history.Record
	key    string
	file   []*commit // its batches
}

// checkFenced checks that a key which no client asks to be fenced was forgotten: that an
// earlier attempt may have committed the object, and that no batch may have been left in
// it, so that the nodes deleted it. A late attempt is refused then.
func (p *parsed) checkFenced(v *Verdict) {
	logOf := p.logOf()
	for _, f := range p.fenced {
		for _, c := range f.file {
			if !c.mayHaveBegun(f) || !c.mayBeElsewhere(f) && !logOf[c].mayHaveDeleted(c, f.record) {
				v.fail(CheckAnswers, c.lines(), "%s was fenced, and its batch in %s was not deleted", f.key, logOf[c].name)
				break
			}
		}
	}
}

// mayHaveBegun says whether another attempt in the same object may have taken effect.
func (c *commit) mayHaveBegun(f fenced) bool {
	return slices.ContainsFunc(c.attempts, func(a attempt) bool { return a.key == f.key && mayPrecede(a.record, f.record) })
}

// mayBeElsewhere says whether an attempt in another object may have taken effect: the
// batch in this one is a duplicate.
func (c *commit) mayBeElsewhere(f fenced) bool {
	return slices.ContainsFunc(c.attempts, func(a attempt) bool { return a.key != f.key && mayPrecede(a.record, f.record) })
}

// mayHaveDeleted says whether the batch may have been deleted before the record ended.
func (l *log) mayHaveDeleted(c *commit, r *history.Record) bool {
	places := c.places()
	return slices.ContainsFunc(l.deletes, func(d *deletion) bool {
		reaches := d.offset < 0 || len(places) == 0 || d.offset > places[0].last
		return reaches && mayPrecede(d.record, r)
	})
}

// mayPrecede says whether one operation may have taken effect before another one ended.
func mayPrecede(first, r *history.Record) bool {
	return first != r && first.Outcome != history.Refused && first.Invoke < r.Return
}
