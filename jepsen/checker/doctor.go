package checker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// doctors make a history wrong that holds, each in one way, and say what they did.
var doctors = map[string]func(*parsed) (string, error){
	"lost-commit":  (*parsed).loseCommit,
	"offset-twice": (*parsed).giveOffsetTwice,
	"stale-read":   (*parsed).ageRead,
}

// Doctors are the ways in which Config.Doctor can make a history wrong.
func Doctors() []string { return slices.Sorted(maps.Keys(doctors)) }

// doctor changes records as the way says, and returns what was changed.
func doctor(records []*history.Record, way string) (string, error) {
	do, ok := doctors[way]
	if !ok {
		return "", fmt.Errorf("a history is not doctored by %q, but by %s", way, strings.Join(Doctors(), ", "))
	}
	p, err := parse(records, nil, &Verdict{})
	if err != nil {
		return "", err
	}
	return do(p)
}

var errNothingToDoctor = errors.New("the history has nothing that could be doctored so")

// loseCommit takes an acknowledged commit out of what the nodes hold at the end.
func (p *parsed) loseCommit() (string, error) {
	for _, l := range p.inOrder() {
		for _, c := range l.commits {
			a := c.acknowledged()
			lost := 0
			for _, s := range c.sightings {
				if a == nil || !s.record.Final {
					continue
				}
				lost++
				change(s.record, func(answer *ops.FindBatchesResponse) {
					r := &answer.Responses[0]
					r.Batches = slices.DeleteFunc(r.Batches, func(b ops.FoundBatch) bool { return b.ObjectKey == s.batch.ObjectKey })
				})
			}
			if lost > 0 {
				return fmt.Sprintf("line %d: the commit of %s is in no read of the end any more", a.line, c.id), nil
			}
		}
	}
	return "", errNothingToDoctor
}

// giveOffsetTwice gives a commit the offsets of another one.
func (p *parsed) giveOffsetTwice() (string, error) {
	for _, l := range p.inOrder() {
		var first *commit
		for _, c := range l.commits {
			switch {
			case c.acknowledged() == nil:
			case first == nil:
				first = c
			default:
				a, b := first.acknowledged(), c.acknowledged()
				base := a.answer.AssignedBaseOffset
				i := slices.Index(b.record.Logs, l.name)
				change(b.record, func(answer *ops.CommitFileResponse) { answer.Batches[i].AssignedBaseOffset = base })
				return fmt.Sprintf("line %d: the commit of %s has offset %d, which line %d was given", b.line, c.id, base, a.line), nil
			}
		}
	}
	return "", errNothingToDoctor
}

// ageRead lets a linearizable read see the log as it was before the last commit that
// had been acknowledged when it began.
func (p *parsed) ageRead() (string, error) {
	for _, l := range p.inOrder() {
		for _, r := range l.reads {
			if r.record.Stale || r.record.Final || r.record.Op != "get-log-info" {
				continue
			}
			if a := l.lastBefore(r.record.Invoke); a != nil {
				i, base := slices.Index(r.record.Logs, l.name), a.answer.AssignedBaseOffset
				change(r.record, func(answer *ops.GetLogInfoResponse) { answer.Responses[i].HighWatermark = base })
				return fmt.Sprintf("line %d: the read sees high watermark %d, as before line %d", r.line, base, a.line), nil
			}
		}
	}
	return "", errNothingToDoctor
}

// lastBefore is the commit with the highest offset of those acknowledged before a time.
func (l *log) lastBefore(at int64) (last *attempt) {
	for _, c := range l.commits {
		a := c.acknowledged()
		if a != nil && a.record.Return < at && (last == nil || a.answer.AssignedBaseOffset > last.answer.AssignedBaseOffset) {
			last = a
		}
	}
	return last
}

// inOrder are the logs by name.
func (p *parsed) inOrder() (logs []*log) {
	for _, name := range p.names {
		logs = append(logs, p.logs[name])
	}
	return logs
}

// change changes the answer of a record, which was decoded before.
func change[A any](r *history.Record, fn func(*A)) {
	var answer A
	if err := json.Unmarshal(r.Response, &answer); err != nil {
		panic(err) // it was decoded before
	}
	fn(&answer)
	data, err := json.Marshal(&answer)
	if err != nil {
		panic(err) // it is plain data
	}
	r.Response = data
}
