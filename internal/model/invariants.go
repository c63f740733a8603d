package model

import "fmt"

// mark is how far something got, none of which goes back: of a log until it is purged, of a
// registration until its topic is deleted, of a broker ever.
type mark [3]int64

// marked is what has a mark: a log, a registration or a broker.
type marked struct {
	kind string
	logKey
	broker int32
}

// watch notes how far each of them got and the first that went back.
func (m *Model) watch() {
	seen := map[marked]mark{}
	for id, t := range m.topics {
		for p, l := range t.logs {
			seen[marked{kind: "log", logKey: logKey{id, p}}] = mark{l.start, l.highWatermark, l.remoteStart}
		}
		for p, r := range t.parts {
			seen[marked{kind: "registration", logKey: logKey{id, p}}] = mark{int64(r.leaderEpoch), int64(r.partEpoch)}
		}
	}
	for id, b := range m.brokers {
		seen[marked{kind: "broker", broker: id}] = mark{b.epoch}
	}
	for at, now := range seen {
		before, known := m.marks[at]
		if known && now.behind(before) && m.broken == nil {
			m.broken = fmt.Errorf("%+v: went back from %v to %v", at, before, now)
		}
	}
	m.marks = seen
}

func (m mark) behind(other mark) bool {
	return m[0] < other[0] || m[1] < other[1] || m[2] < other[2]
}

// Invariants checks what must hold after every operation and names the first log or file for which it does not.
func (m *Model) Invariants() error {
	if m.broken != nil {
		return m.broken
	}
	names := map[string]bool{}
	for id, t := range m.topics {
		if len(t.logs)+len(t.parts) == 0 {
			return fmt.Errorf("%s: no log", id)
		}
		if t.deletedAt == live && names[t.name] {
			return fmt.Errorf("%s: name %q is also that of another topic", id, t.name)
		}
		names[t.name] = names[t.name] || t.deletedAt == live
		for p, l := range t.logs {
			if err := l.check(); err != nil {
				return fmt.Errorf("%s/%d: %w", id, p, err)
			}
		}
	}
	return m.checkFiles()
}

func (l *log) check() error {
	if l.start < 0 || l.start > l.highWatermark {
		return fmt.Errorf("log start %d, high watermark %d", l.start, l.highWatermark)
	}
	for i, b := range l.batches {
		end := l.highWatermark // where the next batch starts
		if i+1 < len(l.batches) {
			end = l.batches[i+1].baseOffset
		}
		if b.lastOffset < b.baseOffset || b.lastOffset+1 != end {
			return fmt.Errorf("batch %d covers %d to %d, the next starts at %d", b.id, b.baseOffset, b.lastOffset, end)
		}
		if b.lastOffset < l.start {
			return fmt.Errorf("batch %d ends at %d, before the log start %d", b.id, b.lastOffset, l.start)
		}
	}
	for id, p := range l.producers {
		if len(p.entries) == 0 || len(p.entries) > maxSequences {
			return fmt.Errorf("producer %d has %d entries", id, len(p.entries))
		}
	}
	return nil
}

func (m *Model) checkFiles() error {
	count := m.references()
	keys := map[string]bool{}
	for _, f := range m.files {
		if keys[f.key] {
			return fmt.Errorf("two files of key %q", f.key)
		}
		if (f.markedAt == live) != (count[f.id] > 0) {
			return fmt.Errorf("file %q is %s with %d batches", f.key, f.state(), count[f.id])
		}
		keys[f.key] = true
		delete(count, f.id)
	}
	for id := range count {
		return fmt.Errorf("batches of file %d, which does not exist", id)
	}
	return nil
}
