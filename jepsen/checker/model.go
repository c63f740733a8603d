package checker

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/cpnode/cpnode/ops"
)

// state is one partition, as docs/operations.md describes it. It is never changed;
// an append shares all that was there before.
type state struct {
	start, end int64
	tail       *appended // nil while nothing was appended
}

// appended is one batch, with all that was appended before it, deleted or not.
type appended struct {
	base, last int64
	commit     *commit
	before     *appended
}

// input is one operation of one partition, with its answer where there is one.
type input struct {
	line   int
	text   string
	commit *commitInput
	delete *deletion
	read   *read
}

// commitInput is a commit, all its attempts together. base and start are -1 when
// nobody was told them.
type commitInput struct {
	commit      *commit
	base, start int64
}

// logModel is a partition for porcupine. Answers are part of the input, so outputs
// are not used.
var logModel = porcupine.Model{
	Init:  func() any { return state{} },
	Step:  func(s, in, _ any) (bool, any) { return s.(state).step(in.(*input)) },
	Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	DescribeOperation: func(in, _ any) string {
		i := in.(*input)
		return fmt.Sprintf("line %d: %s", i.line, i.text)
	},
	DescribeState: func(s any) string {
		return fmt.Sprintf("log start %d, high watermark %d", s.(state).start, s.(state).end)
	},
}

func (s state) equal(o state) bool {
	if s.start != o.start || s.end != o.end {
		return false
	}
	a, b := s.tail, o.tail
	for a != b {
		if a == nil || b == nil || a.base != b.base || a.commit != b.commit {
			return false
		}
		a, b = a.before, b.before
	}
	return true
}

// step says whether the operation can have had its answer in this state, and what
// the state is then.
func (s state) step(in *input) (bool, state) {
	switch {
	case in.commit != nil:
		return s.append(in.commit)
	case in.delete != nil:
		return s.cut(in.delete)
	default:
		return s.answers(in.read), s
	}
}

func (s state) append(c *commitInput) (bool, state) {
	if c.base >= 0 && c.base != s.end || c.start >= 0 && c.start != s.start {
		return false, s
	}
	end := s.end + c.commit.records
	return true, state{s.start, end, &appended{s.end, end - 1, c.commit, s.tail}}
}

func (s state) cut(d *deletion) (bool, state) {
	offset := d.offset
	if offset == -1 {
		offset = s.end
	}
	outOfRange := offset < 0 || offset > s.end
	after := s
	if !outOfRange {
		after.start = max(s.start, offset)
	}
	switch {
	case d.answer == nil:
		return true, after
	case d.answer.Error == ops.OffsetOutOfRange:
		return outOfRange, after
	default:
		return !outOfRange && d.answer.LogStartOffset == after.start, after
	}
}

func (s state) answers(r *read) bool {
	if r.start >= 0 && r.start != s.start || r.end >= 0 && r.end != s.end || r.bytes >= 0 && r.bytes != s.bytes() {
		return false
	}
	if r.find == nil {
		return r.err == ops.None
	}
	outOfRange := r.find.from < s.start || r.find.from > s.end
	if outOfRange || r.err != ops.None {
		return outOfRange && r.err == ops.OffsetOutOfRange && len(r.find.batches) == 0
	}
	return s.finds(r.find)
}

// bytes is the size of what was not deleted.
func (s state) bytes() (sum int64) {
	for b := s.tail; b != nil && b.last >= s.start; b = b.before {
		sum += b.commit.size
	}
	return sum
}

// finds says whether these are the first batches that end at or after the offset.
// Its byte budgets are never spent in these histories.
func (s state) finds(f *found) bool {
	var expected []*appended // the last one first
	for b := s.tail; b != nil && b.last >= max(f.from, s.start); b = b.before {
		expected = append(expected, b)
	}
	count := len(expected)
	if f.limit > 0 {
		count = min(count, int(f.limit))
	}
	if len(f.batches) != count {
		return false
	}
	for i, b := range f.batches {
		if !expected[len(expected)-1-i].is(&b) {
			return false
		}
	}
	return true
}
