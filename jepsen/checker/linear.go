package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// is says whether a found batch is this one.
func (a *appended) is(b *ops.FoundBatch) bool {
	return b.BaseOffset == a.base && b.LastOffset == a.last && b.ByteSize == a.commit.size && slices.Contains(a.commit.keys, b.ObjectKey)
}

// checkLinearizable searches for an order of the partition's operations that
// explains all answers. A drawing of what was found is written to path when there is
// none.
func (l *log) checkLinearizable(v *Verdict, budget time.Duration, path string) {
	operations := l.operations()
	result, info := porcupine.CheckOperationsVerbose(logModel, operations, budget)
	switch result {
	case porcupine.Unknown:
		v.unknown("%s: no order of its %d operations was found in %s, nor that there is none", l.name, len(operations), budget)
	case porcupine.Illegal:
		lines, text := explain(info, operations)
		if path != "" {
			if err := porcupine.VisualizePath(logModel, info, path); err == nil {
				text += "; drawn in " + path
			}
		}
		v.fail(CheckLinearizable, lines, "%s: %s", l.name, text)
	}
}

// explain names the first operation to end that the longest explained order does not
// hold, and the one that comes last in that order.
func explain(info porcupine.LinearizationInfo, all []porcupine.Operation) (lines []int, text string) {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	explained := map[any]bool{}
	for _, o := range longest {
		explained[o.Input] = true
	}
	text = "no order explains the answers"
	if len(longest) > 0 {
		last := longest[len(longest)-1].Input.(*input)
		lines, text = append(lines, last.line), fmt.Sprintf("%s after %s", text, last.text)
	}
	slices.SortFunc(all, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for _, o := range all {
		if in := o.Input.(*input); !explained[in] {
			return append(lines, in.line), fmt.Sprintf("%s; %s does not follow", text, in.text)
		}
	}
	return lines, text
}

// operations are what the search has to order: linearizable reads, deletes, and each
// commit once. What is known about outcomes from answers and reads is put in, since
// an outcome that can be anything makes the search long.
func (l *log) operations() (all []porcupine.Operation) {
	for _, c := range l.commits {
		if o, ok := l.commitOperation(c); ok {
			all = append(all, o)
		}
	}
	for _, d := range l.deletes {
		if o, ok := l.deleteOperation(d); ok {
			all = append(all, o)
		}
	}
	for _, r := range l.reads {
		if !r.record.Stale {
			text := fmt.Sprintf("%s at %s: log start %d, high watermark %d", r.record.Op, r.record.Node, r.start, r.end)
			if r.find != nil {
				text += fmt.Sprintf(", %d batches from %d", len(r.find.batches), r.find.from)
			}
			all = append(all, operation(r.record.Invoke, r.record.Return, &input{line: r.line, text: text, read: r}))
		}
	}
	return all
}

func operation(call, end int64, in *input) porcupine.Operation {
	return porcupine.Operation{Input: in, Call: call, Return: end}
}

// commitOperation is the effect of all attempts of a commit, which is one: it begins
// with the first that was not refused, and is over when the first was answered or a
// read found it. One that had no effect is left out.
func (l *log) commitOperation(c *commit) (o porcupine.Operation, ok bool) {
	in := &input{line: c.attempts[0].line, text: "commit of " + c.id, commit: &commitInput{c, -1, -1}}
	end := int64(math.MaxInt64)
	for _, s := range c.sightings {
		end, in.commit.base = min(end, s.record.Return), s.batch.BaseOffset
	}
	if a := c.acknowledged(); a != nil {
		end, in.commit.base = min(end, a.record.Return), a.answer.AssignedBaseOffset
		if !a.answer.Duplicate {
			in.commit.start = a.answer.LogStartOffset
		}
	}
	begin := c.begin()
	if len(c.places()) == 0 {
		f, mayBe := l.fillings[c]
		if !mayBe {
			return o, false
		}
		end, in.commit.base = f.until, f.base
	}
	if in.commit.base >= 0 {
		in.text += fmt.Sprintf(" at offset %d", in.commit.base)
	}
	for _, a := range c.attempts {
		if begin >= end { // a refused attempt had the effect, which checkRefused says
			begin = min(begin, a.record.Invoke)
		}
	}
	return operation(begin, end, in), begin < end
}

// deleteOperation is over, when its outcome is unknown, once the log is known to
// start there or later: then it changes nothing any more. One above the final log
// start had no effect.
func (l *log) deleteOperation(d *deletion) (o porcupine.Operation, ok bool) {
	in := &input{line: d.line, text: fmt.Sprintf("delete-records to %d", d.offset), delete: d}
	end := d.record.Return
	if d.record.Outcome == history.Unknown {
		end = math.MaxInt64
		if start, read := l.finalStart(); read && d.offset > start {
			return o, false
		}
		for _, e := range l.evidence {
			if d.offset >= 0 && e.start >= d.offset {
				end = max(e.at, d.record.Invoke+1)
				break
			}
		}
	}
	return operation(d.record.Invoke, end, in), d.record.Outcome != history.Refused
}
