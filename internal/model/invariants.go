package model

import "fmt"

// mark is how far a log got: none of it goes back until the log is purged.
type mark struct {
	start, highWatermark, remoteStart int64
}

// watch notes how far each log got and the first that went back.
func (m *Model) watch() {
	seen := map[logKey]mark{}
	for id, t := range m.topics {
		for p, l := range t.logs {
			at, now := logKey{id, p}, mark{l.start, l.highWatermark, l.remoteStart}
			before, known := m.marks[at]
			back := now.start < before.start || now.highWatermark < before.highWatermark || now.remoteStart < before.remoteStart
			if known && back && m.broken == nil {
				m.broken = fmt.Errorf("%s/%d: went back from %+v to %+v", id, p, before, now)
			}
			seen[at] = now
		}
	}
	m.marks = seen
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
