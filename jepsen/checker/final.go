package checker

import (
	"slices"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
)

// held is what one node holds of a log at the end.
type held struct {
	start, end int64
	batches    []ops.FoundBatch
	line       int // of the last read
}

// held puts the final reads of a node together; nil when there are none.
func (l *log) held(node string) *held {
	var h *held
	for _, r := range l.reads {
		if !r.record.Final || r.record.Node != node {
			continue
		}
		if h == nil {
			h = &held{}
		}
		h.start, h.end, h.line = r.start, r.end, r.line
		if r.find != nil {
			h.batches = append(h.batches, r.find.batches...)
		}
	}
	return h
}

// checkHeld checks what every node holds of every log at the end.
func (p *parsed) checkHeld(v *Verdict) {
	if len(p.nodes) == 0 {
		v.unknown("no node was read at the end")
	}
	for _, name := range p.names {
		l := p.logs[name]
		var first *held
		for _, node := range p.nodes {
			h := l.held(node)
			if h == nil {
				v.unknown("%s was not read from node %s at the end", name, node)
				continue
			}
			l.checkHoles(v, node, h)
			l.checkAcknowledged(v, node, h)
			l.checkLogStart(v, node, h)
			if first == nil {
				first = h
			}
			if h.start != first.start || h.end != first.end || !slices.Equal(h.batches, first.batches) {
				v.fail(CheckReplicas, []int{first.line, h.line}, "%s: node %s holds %d batches, offsets %d to %d; node %s %d, offsets %d to %d, or others",
					name, p.nodes[0], len(first.batches), first.start, first.end, node, len(h.batches), h.start, h.end)
			}
		}
	}
}

// checkHoles checks that the batches cover the log from its start to its end, once.
func (l *log) checkHoles(v *Verdict, node string, h *held) {
	next := h.start
	for i, b := range h.batches {
		// Only the first may begin before: a cut leaves it whole.
		if b.BaseOffset != next && (i > 0 || b.BaseOffset > next || b.LastOffset < next) {
			v.fail(CheckHoles, []int{h.line}, "%s on node %s: offset %d is missing or there twice; the next batch is %s at %d to %d",
				l.name, node, next, b.ObjectKey, b.BaseOffset, b.LastOffset)
		}
		next = b.LastOffset + 1
	}
	if next != h.end {
		v.fail(CheckHoles, []int{h.line}, "%s on node %s: the batches end at %d, the high watermark is %d", l.name, node, next, h.end)
	}
}

// checkAcknowledged looks for every acknowledged commit at its offset.
func (l *log) checkAcknowledged(v *Verdict, node string, h *held) {
	at := map[int64]ops.FoundBatch{}
	for _, b := range h.batches {
		at[b.BaseOffset] = b
	}
	for _, c := range l.commits {
		a := c.acknowledged()
		if a == nil {
			continue
		}
		base := a.answer.AssignedBaseOffset
		if base+c.records <= h.start {
			continue // deleted, as checkLogStart explains
		}
		b, ok := at[base]
		if !ok || !slices.Contains(c.keys, b.ObjectKey) {
			v.fail(CheckAcknowledged, []int{a.line, h.line}, "%s: %s was acknowledged at offset %d, and is not there on node %s", l.name, c.id, base, node)
		}
	}
}

// checkLogStart checks that every acknowledged delete is still in force, and that
// the log start is not higher than somebody asked.
func (l *log) checkLogStart(v *Verdict, node string, h *held) {
	bound, lines := int64(0), []int{h.line}
	for _, d := range l.deletes {
		switch {
		case d.answer != nil && d.answer.LogStartOffset > h.start:
			v.fail(CheckLogStart, []int{d.line, h.line}, "%s: records before %d were deleted, and node %s begins at %d", l.name, d.answer.LogStartOffset, node, h.start)
		case d.record.Outcome == history.Refused:
		case d.answer != nil:
			bound = max(bound, d.answer.LogStartOffset)
		case d.offset < 0:
			bound = h.end
		default:
			bound = max(bound, d.offset)
		}
		lines = append(lines, d.line)
	}
	if h.start > bound {
		v.fail(CheckLogStart, lines, "%s: node %s begins at %d, though nobody deleted records from %d on", l.name, node, h.start, bound)
	}
}
