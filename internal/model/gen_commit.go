package model

import (
	"math"
	"strings"
)

func (g *Gen) commitFile(m *Model) any {
	if len(g.commits) > 0 && g.one(8) {
		return pick(g, g.commits...)
	}
	r := commitRequest{
		ObjectKey: g.key(m), Format: 1, Uploader: int32(g.r.Intn(3)), FileSize: g.upTo(10_000), Batches: []commitBatch{},
	}
	plan := plannedSequences{}
	offset := g.upTo(2)
	for range g.r.Intn(7) {
		b := g.batch(m, plan, offset)
		if len(r.Batches) > 0 && g.one(3) { // another batch of the same log: these are joined
			b = g.batchAt(m, plan, r.Batches[len(r.Batches)-1].target, offset)
		}
		r.Batches = append(r.Batches, b)
		offset = b.ByteOffset + b.ByteSize
		if g.one(4) {
			offset += g.upTo(3)
		}
	}
	g.spoil(&r)
	g.commits = append(g.commits, r)
	g.commits = g.commits[max(0, len(g.commits)-recentCommits):]
	return r
}

// spoil makes few requests malformed, each in one way.
func (g *Gen) spoil(r *commitRequest) {
	if len(r.Batches) == 0 || !g.one(40) {
		return
	}
	b := &r.Batches[g.r.Intn(len(r.Batches))]
	switch g.r.Intn(5) {
	case 0:
		b.ByteSize = -g.upTo(1)
	case 1:
		b.LastOffset = b.BaseOffset - 1
	case 2:
		r.ObjectKey = ""
	case 3:
		r.ObjectKey = strings.Repeat("k", 1025)
	case 4:
		b.Partition = -1
	}
}

func (g *Gen) batch(m *Model, plan plannedSequences, offset int64) commitBatch {
	return g.batchAt(m, plan, g.target(m), offset)
}

func (g *Gen) batchAt(m *Model, plan plannedSequences, at target, offset int64) commitBatch {
	base := g.upTo(20)
	b := commitBatch{
		target: at, Magic: 2, ByteOffset: offset, ByteSize: 1 + g.upTo(300),
		BaseOffset: base, LastOffset: base + g.upTo(4), TimestampType: pick[int8](g, 0, 0, 0, 1),
		MaxTime:    g.clockMs - g.upTo(1_000_000) + 200_000,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
	}
	if g.one(8) {
		b.MaxTime = -1
	}
	if g.one(30) {
		b.Magic = 1
	}
	if !g.one(3) {
		g.sequence(m, plan, &b)
	}
	return b
}

// plannedSequences is the next epoch and sequence of producers that the batches of one request have used already.
type plannedSequences map[plannedProducer]plannedNext

type plannedProducer struct {
	target
	id int64
}

type plannedNext struct {
	epoch int16
	base  int32
}

// sequence gives a batch to a producer: mostly what comes next, else a retry, a gap, a bump or an old epoch.
func (g *Gen) sequence(m *Model, plan plannedSequences, b *commitBatch) {
	b.ProducerID = g.upTo(producerIDs - 1)
	at := plannedProducer{b.target, b.ProducerID}
	next, planned := plan[at]
	p := m.producerAt(b.target, b.ProducerID)
	if !planned && p != nil {
		next = plannedNext{p.epoch, sequenceAfter(p.entries[len(p.entries)-1].last)}
	}
	b.ProducerEpoch, b.BaseSequence = next.epoch, next.base
	switch {
	case g.one(10) && p != nil:
		g.retry(p, b)
		return
	case g.one(15):
		b.ProducerEpoch = next.epoch - 1
		return
	case g.one(12):
		b.BaseSequence = pick(g, next.base+2, 0, math.MaxInt32) & math.MaxInt32
	case g.one(12):
		b.ProducerEpoch, b.BaseSequence = next.epoch+1, pick[int32](g, 0, 0, 0, next.base)
	}
	b.LastSequence = (b.BaseSequence + int32(b.LastOffset-b.BaseOffset)) & math.MaxInt32
	plan[at] = plannedNext{b.ProducerEpoch, sequenceAfter(b.LastSequence)}
}

// retry sends a remembered batch again, or one that only starts like it.
func (g *Gen) retry(p *producer, b *commitBatch) {
	e := pick(g, p.entries...)
	b.ProducerEpoch, b.BaseSequence, b.LastSequence = p.epoch, e.base, e.last
	b.LastOffset = b.BaseOffset + int64((e.last-e.base)&math.MaxInt32)
	if g.one(5) {
		b.LastSequence = sequenceAfter(e.last)
		b.LastOffset++
	}
}

func (m *Model) producerAt(at target, id int64) *producer {
	if l := m.log(at); l != nil {
		return l.producers[id]
	}
	return nil
}
