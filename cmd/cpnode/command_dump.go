package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func dumpCommand() *cobra.Command {
	var log, state bool
	var file string
	c := &cobra.Command{
		Use:   "dump DIR [--state | --log]",
		Short: "Write a stopped node's state or raft log as JSON lines",
		Long: `Writes one JSON object a line, the first one saying what follows: with --state (the
default) every row of the state, decoded; with --log every entry of the raft log,
decoded and as the bytes that were logged. Changes nothing. cpnode replay takes a
dumped log.`,
		Example: `  cpnode dump cpnode-data > state.jsonl
  cpnode dump cpnode-data --log -o log.jsonl && cpnode replay log.jsonl`,
		Args:    exactly(1),
		GroupID: groupOffline,
	}
	c.Flags().BoolVar(&state, "state", false, "write the state")
	c.Flags().BoolVar(&log, "log", false, "write the raft log")
	c.Flags().StringVarP(&file, "output", "o", "", "write to this new file instead of the standard output")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		d := dumpState
		if log && state {
			return usagef("--state, --log: give one of them")
		}
		if log {
			d = dumpLog
		}
		run := func(w io.Writer) error { return explainDump(d(cmd.Context(), args[0], w, cmd.ErrOrStderr())) }
		if file == "" {
			return run(cmd.OutOrStdout())
		}
		return writeNewFile(file, run)
	}
	return c
}

// explainDump adds what to do to errors that do not say it themselves.
func explainDump(err error) error {
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, raftnode.ErrLogDamaged) {
		return fmt.Errorf("%w; see %s check", err, program)
	}
	return explainCheck(err)
}

// writeNewFile keeps nothing of a file that could not be written whole.
func writeNewFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: name another file, or remove it", path)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// What the first line of a dump says, and of which format.
const (
	dumpFormat  = 1
	dumpedLog   = "log"
	dumpedState = "state"
)

// dumpHead begins a dump.
type dumpHead struct {
	Dump    string `json:"dump,omitempty"` // dumpedLog or dumpedState
	Format  int    `json:"format,omitempty"`
	Release string `json:"release,omitempty"`
}

// logHead is the first line of a dumped log.
type logHead struct {
	dumpHead
	raftnode.LogDump
}

// stateHead is the first line of a dumped state.
type stateHead struct {
	dumpHead
	raftnode.StateDump
}

func dumpLog(ctx context.Context, dir string, w, progress io.Writer) error {
	lines := newDumpWriter(w, progress, "entries")
	err := raftnode.DumpLog(ctx, store.Child{}, dir, func(l raftnode.LogDump) error {
		if l.LastIndex > 0 {
			lines.total = int64(l.LastIndex - l.FirstIndex + 1)
		}
		return lines.head(logHead{dumpHead{dumpedLog, dumpFormat, release()}, l})
	}, func(e raftnode.LogEntry) error { return lines.line(e) })
	return errors.Join(err, lines.close())
}

func dumpState(ctx context.Context, dir string, w, progress io.Writer) error {
	lines := newDumpWriter(w, progress, "rows")
	err := raftnode.DumpState(ctx, store.Child{}, dir, func(s raftnode.StateDump) error {
		return lines.head(stateHead{dumpHead{dumpedState, dumpFormat, release()}, s})
	}, func(r store.Row) error { return lines.line(r) })
	return errors.Join(err, lines.close())
}

// dumpWriter writes lines, and shows how far it has come.
type dumpWriter struct {
	out     *bufio.Writer
	json    *json.Encoder
	show    func(step string)
	what    string
	written int64
	total   int64 // 0: not known
	began   time.Time
}

func newDumpWriter(w, progress io.Writer, what string) *dumpWriter {
	out := bufio.NewWriterSize(w, 1<<20)
	d := &dumpWriter{out: out, json: json.NewEncoder(out), show: progressOn(progress), what: what, began: time.Now()}
	d.json.SetEscapeHTML(false)
	d.show("checking")
	return d
}

func (d *dumpWriter) head(v any) error { return d.json.Encode(v) }

// showEvery is how many lines are written between two looks at the progress.
const showEvery = 4096

func (d *dumpWriter) line(v any) error {
	d.written++
	if d.written%showEvery == 0 {
		d.show(progressText(d.written, d.total, d.what, time.Since(d.began)))
	}
	return d.json.Encode(v)
}

func (d *dumpWriter) close() error {
	d.show("")
	return d.out.Flush()
}
