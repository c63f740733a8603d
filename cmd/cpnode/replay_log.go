package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// logReplay is how a dumped log is to be replayed.
type logReplay struct {
	from   string // the state to begin with: a backup or a data directory; empty: none
	to     uint64 // the last index to apply; 0: all
	digest string // what must come out; empty: anything
}

// replayed is what a dumped log came to.
type replayed struct {
	store.Meta
	entries int // that changed the state or could have
}

// replayBatch is how many entries share a transaction: a node would take as many.
const replayBatch = 256

// run applies the entries that follow the head of a dumped log to a state of its
// own, as a node that had them in its log would.
func (r *logReplay) run(ctx context.Context, head logHead, lines *lineReader) (done replayed, err error) {
	if head.Format != dumpFormat {
		return done, fmt.Errorf("a dump of format %d, this release reads %d", head.Format, dumpFormat)
	}
	dir, err := os.MkdirTemp("", "cpnode-replay-")
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "state.db")
	if err := r.base(path); err != nil {
		return done, err
	}
	state, err := store.Open(path, store.Options{Sync: store.SyncNever})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	machine, err := fsm.New(state, fsm.Owner{Stopped: func(error) {}, NoSpace: func(error) bool { return false }})
	if err != nil {
		return done, err
	}
	if err := r.begins(head, machine.Applied()); err != nil {
		return done, err
	}
	if done.entries, err = r.apply(ctx, machine, head, lines); err != nil {
		return done, err
	}
	return done, state.View(func(tx *store.ReadTx) error {
		done.Meta = tx.Meta()
		return nil
	})
}

// base puts the state to begin with at path.
func (r *logReplay) base(path string) error {
	if r.from == "" {
		return nil
	}
	info, err := os.Stat(r.from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return raftnode.CopyState(r.from, path)
	}
	from, err := os.Open(r.from)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	if _, err := store.Extract(from, path); err != nil {
		return fmt.Errorf("%s: %w", r.from, err)
	}
	return nil
}

// begins refuses a log that lacks entries which the state needs.
func (r *logReplay) begins(head logHead, applied uint64) error {
	switch {
	case head.FirstIndex == 0:
		return errors.New("the dumped log has no entries")
	case head.FirstIndex <= applied+1:
		return nil
	case r.from == "":
		return fmt.Errorf("the log begins at %d, what came before is in a snapshot: give a state that holds it with --from", head.FirstIndex)
	default:
		return fmt.Errorf("the log begins at %d, the state of %s ends at %d: entries between them are missing", head.FirstIndex, r.from, applied)
	}
}

// apply hands the entries to the state machine, and counts those that it sees.
func (r *logReplay) apply(ctx context.Context, machine *fsm.FSM, head logHead, lines *lineReader) (seen int, err error) {
	var batch []*raft.Log
	next := head.FirstIndex
	flush := func() error {
		for _, a := range machine.ApplyBatch(batch) {
			if answer := a.(fsm.Result); answer.Err != nil && !errors.Is(answer.Err, fsm.ErrApplied) {
				return answer.Err
			}
		}
		seen, batch = seen+len(batch), batch[:0]
		return ctx.Err()
	}
	for lines.next() && (r.to == 0 || next <= r.to) {
		entry, err := lines.entry(next)
		if err != nil {
			return seen, lines.at(err)
		}
		next++
		if entry.Type == raft.LogCommand || entry.Type == raft.LogConfiguration { // what a state machine sees
			batch = append(batch, entry)
		}
		if len(batch) == replayBatch {
			if err := flush(); err != nil {
				return seen, err
			}
		}
	}
	if err := lines.err(); err != nil {
		return seen, err
	}
	if last := min(head.LastIndex, next-1); r.to == 0 && last < head.LastIndex {
		return seen, fmt.Errorf("the dump was cut short: it ends at entry %d of %d", last, head.LastIndex)
	}
	if len(batch) == 0 {
		return seen, nil
	}
	return seen, flush()
}

// report says what the log came to, and whether that is what it should be.
func (r *logReplay) report(file string, done replayed, w io.Writer) error {
	got := done.Digest.String()
	if _, err := fmt.Fprintf(w, "%s: %d entries, index %d (term %d), digest %s\n", file, done.entries, done.AppliedIndex, done.AppliedTerm, got); err != nil {
		return err
	}
	if r.digest != "" && !strings.EqualFold(r.digest, got) {
		return fmt.Errorf("%s: the digest is %s, not %s", file, got, r.digest)
	}
	return nil
}

// lineReader reads the lines of a file that are not empty.
type lineReader struct {
	file    string
	scanner *bufio.Scanner
	number  int
	line    []byte
}

func newLineReader(file string, in io.Reader) *lineReader {
	l := &lineReader{file: file, scanner: bufio.NewScanner(in)}
	l.scanner.Buffer(make([]byte, 1<<20), maxTraceLine)
	return l
}

// next reads a line into l.line.
func (l *lineReader) next() bool {
	for l.scanner.Scan() {
		l.number++
		if l.line = bytes.TrimSpace(l.scanner.Bytes()); len(l.line) > 0 {
			return true
		}
	}
	return false
}

// err is why there is no next line, nil at the end of the file.
func (l *lineReader) err() error {
	if err := l.scanner.Err(); err != nil {
		return fmt.Errorf("%s: after line %d: %w", l.file, l.number, err)
	}
	return nil
}

// at adds the place of the present line to an error.
func (l *lineReader) at(err error) error { return fmt.Errorf("%s:%d: %w", l.file, l.number, err) }

// head is what the present line says to begin, nothing when it begins no dump.
func (l *lineReader) head() (h logHead) {
	if json.Unmarshal(l.line, &h) != nil {
		return logHead{}
	}
	return h
}

// entry is the present line, which must be the entry at index.
func (l *lineReader) entry(index uint64) (*raft.Log, error) {
	var e raftnode.LogEntry
	if err := json.Unmarshal(l.line, &e); err != nil {
		return nil, fmt.Errorf("not an entry of a dumped log: %w", err)
	}
	if e.Index != index {
		return nil, fmt.Errorf("entry %d where %d should be", e.Index, index)
	}
	return e.Entry()
}
