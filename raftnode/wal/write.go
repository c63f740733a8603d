package wal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"
)

// StoreLogs appends entries, which follow each other, in one durable write. After an
// error none of them is there. Where they do not follow the log, it begins anew with
// them: raft leaves a hole only behind a snapshot that covers all before it.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	encoded, err := encode(entries)
	if err != nil {
		return err
	}
	if err := l.makeRoom(entries[0].Index); err != nil {
		return err
	}
	tail := l.segments[len(l.segments)-1]
	if err := tail.writer.Append(encoded); err != nil {
		if tail.file.unsure {
			l.broken = err
		}
		return err
	}
	return nil
}

func encode(entries []*raft.Log) ([]types.LogEntry, error) {
	first, total := entries[0].Index, 0
	for i, entry := range entries {
		if n := encodedSize(entry); n > MaxEntryBytes+entryHead {
			return nil, fmt.Errorf("raft log: entry %d has %d bytes, more than %d", entry.Index, n, MaxEntryBytes)
		}
		if entry.Index != first+uint64(i) {
			return nil, fmt.Errorf("raft log: entry %d follows entry %d", entry.Index, first+uint64(i)-1)
		}
		total += encodedSize(entry)
	}
	buffer := make([]byte, 0, total)
	encoded := make([]types.LogEntry, len(entries))
	for i, entry := range entries {
		begin := len(buffer)
		buffer = appendEntry(buffer, first, entry)
		encoded[i] = types.LogEntry{Index: entry.Index, Data: buffer[begin:]}
	}
	return encoded, nil
}

// writable are the bounds of a log that can be changed.
func (l *Log) writable() (first, last uint64, err error) {
	if l.broken != nil {
		return 0, 0, fmt.Errorf("raft log: not written to after %v", l.broken) //nolint:errorlint // is no want of space
	}
	return l.bounds()
}

// makeRoom sees to it that the last segment takes entry index.
func (l *Log) makeRoom(index uint64) error {
	_, last, err := l.writable()
	if err != nil {
		return err
	}
	n := len(l.segments) - 1
	tail := l.segments[n]
	full, indexStart, err := tail.writer.Sealed()
	switch {
	case err != nil:
		return err
	case last > 0 && index <= last:
		return fmt.Errorf("raft log: entry %d is to follow entry %d", index, last)
	case last > 0 && index > last+1, last == 0 && index != tail.First:
		return l.follow(nil, index)
	case full:
		return l.follow(append(l.segments[:n:n], tail.ended(last, indexStart)), index)
	}
	return nil
}

// DeleteOldest deletes the entries up to last.
func (l *Log) DeleteOldest(last uint64) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	first, newest, err := l.writable()
	if err != nil || first == 0 || last < first {
		return err
	}
	if last >= newest {
		return l.follow(nil, newest+1)
	}
	kept := l.segments
	for kept[0].Last != 0 && kept[0].Last <= last {
		kept = kept[1:]
	}
	head := *kept[0]
	head.Min = last + 1
	return l.become(append([]*segment{&head}, kept[1:]...), l.nextID)
}

// DeleteNewest deletes the entries from first on. Nothing is written over: the
// segment that keeps some is ended, and another one begins.
func (l *Log) DeleteNewest(first uint64) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	oldest, newest, err := l.writable()
	if err != nil || oldest == 0 || first > newest {
		return err
	}
	n := len(l.segments)
	for n > 0 && l.segments[n-1].Min >= first {
		n--
	}
	if n == 0 {
		return l.follow(nil, first)
	}
	end := l.segments[n-1]
	indexStart := end.IndexStart
	if end.writer != nil {
		if indexStart, err = end.writer.ForceSeal(); err != nil {
			l.broken = err // it would not try again
			return err
		}
	}
	return l.follow(append(l.segments[:n-1:n-1], end.ended(first-1, indexStart)), first)
}

// follow makes the log consist of segments, of which none is written to, and an empty
// one for entry index and the next ones. Its file is durable before the list has it:
// one that is listed and missing is damage.
func (l *Log) follow(segments []*segment, index uint64) error {
	if err := l.removeStray(); err != nil {
		return err
	}
	next := &segment{ID: l.nextID, First: index, Min: index, Size: l.options.SegmentBytes}
	var err error
	if next.writer, err = l.filer.Create(next.info()); err != nil {
		return err
	}
	l.stray = next.name()
	next.reader, next.file = next.writer, l.opened
	if err := l.become(append(segments[:len(segments):len(segments)], next), l.nextID+1); err != nil {
		return errors.Join(err, next.reader.Close())
	}
	l.stray = ""
	return nil
}

// removeStray removes a file that did not get into the list, or may have: not before
// another one is to.
func (l *Log) removeStray() error {
	if l.stray == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(l.dir, l.stray)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// become changes the list, and then the directory to what it says.
func (l *Log) become(segments []*segment, nextID uint64) error {
	if err := l.save(segments, nextID); err != nil {
		return err
	}
	kept := map[uint64]bool{}
	for _, s := range segments {
		kept[s.ID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, s := range l.segments {
		if !kept[s.ID] {
			err = errors.Join(err, s.reader.Close(), os.Remove(filepath.Join(l.dir, s.name())))
		}
	}
	l.segments, l.nextID = segments, nextID
	return errors.Join(err, l.readEnded())
}

// readEnded opens the segments that have ended as they would be after a restart: the
// writer of one holds the bytes of its largest append.
func (l *Log) readEnded() error {
	for _, s := range l.segments {
		if s.file == nil || s.Last == 0 {
			continue
		}
		reader, err := l.filer.Open(s.info())
		if err != nil {
			return s.damaged("%v", err)
		}
		if err := s.reader.Close(); err != nil {
			return errors.Join(err, reader.Close())
		}
		s.reader, s.file = reader, nil
	}
	return nil
}

// save makes a list durable, and in it how much of the files is.
func (l *Log) save(segments []*segment, nextID uint64) error {
	for _, s := range segments {
		if s.file != nil {
			s.Durable = s.file.synced
		}
	}
	data, err := json.Marshal(catalog{catalogFormat, nextID, segments})
	if err != nil {
		return err
	}
	return l.list.Save(data)
}
