package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/ops"
)

// replayFlags are the command line of replay.
type replayFlags struct {
	verify  bool
	dataDir string
	log     logReplay
}

func replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Run recorded operations, or a dumped log, on a fresh state",
		Long: `Reads JSON lines {"op", "now_ms", "request"} and runs each through a log entry on a
state of its own, each file on a fresh one. Writes one line each: {"response": ...}
or {"error": {"code": ...}}. With --verify it compares with the response or error in
the file instead, and exits 1 at the first difference.

A log that cpnode dump --log wrote is applied entry by entry instead; what comes out
is the index and the digest of the state, which every release must come to alike.
The last entries of a log may never have been committed: --to leaves them out.`,
		Example: `  cpnode replay --verify testdata/golden/*.jsonl
  cpnode replay --data-dir cpnode-data captured.jsonl
  cpnode replay log.jsonl --to 5120 --digest 6f1c0a4a2a8c5d0be3f1f2f5b5b0a7de
  cpnode replay log.jsonl --from backup.cpnode`,
		Args:    atLeastOne,
		GroupID: groupOffline,
	}
	c.Flags().BoolVar(&f.verify, "verify", false, "compare with the answers in the file")
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "begin with a copy of the state in this directory of a stopped node")
	c.Flags().StringVar(&f.log.from, "from", "", "dumped log: begin with the state of this backup, or of this stopped node's directory")
	c.Flags().Uint64Var(&f.log.to, "to", 0, "dumped log: apply no entry after this index; 0 = all")
	c.Flags().StringVar(&f.log.digest, "digest", "", "dumped log: exit 1 unless this digest comes out")
	c.RunE = func(cmd *cobra.Command, files []string) error {
		for _, file := range files {
			if err := replayFile(cmd.Context(), file, &f, cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// trace is one recorded operation.
type trace struct {
	Op       string          `json:"op"`
	NowMs    int64           `json:"now_ms"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
	Error    *traceError     `json:"error"`
}

type traceError struct {
	Code ops.Code `json:"code"`
}

// answer is the recorded answer in the form that replay writes.
func (t *trace) answer() []byte {
	if t.Error != nil {
		return errorLine(t.Error.Code)
	}
	return responseLine(t.Response)
}

func errorLine(code ops.Code) []byte { return fmt.Appendf(nil, `{"error":{"code":%q}}`, code) }

func responseLine(response []byte) []byte { return fmt.Appendf(nil, `{"response":%s}`, response) }

// maxTraceLine is far beyond a request of the largest size with its answer.
const maxTraceLine = 64 << 20

// replayFile replays one file, a trace or a dumped log by what its first line says.
func replayFile(ctx context.Context, file string, f *replayFlags, w io.Writer) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	lines := newLineReader(file, in)
	lines.next()
	switch head := lines.head(); head.Dump {
	case "":
		return replayTrace(lines, f, w)
	case dumpedLog:
		done, err := f.log.run(ctx, head, lines)
		if err != nil {
			return err
		}
		return f.log.report(file, done, w)
	default:
		return fmt.Errorf("%s: is a dumped %s; replay takes a dumped log or recorded operations", file, head.Dump)
	}
}

// replayTrace replays recorded operations from the present line on, and writes their
// answers or compares them.
func replayTrace(lines *lineReader, f *replayFlags, w io.Writer) (err error) {
	r, err := newReplayer(f.dataDir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush(), r.close()) }()
	operations := 0
	for more := len(lines.line) > 0; more; more = lines.next() {
		operations++
		if err := replayLine(r, lines.line, f.verify, out); err != nil {
			return lines.at(err)
		}
	}
	if f.verify && lines.err() == nil {
		fmt.Fprintf(out, "%s: %d operations, no difference\n", lines.file, operations)
	}
	return lines.err()
}

func replayLine(r *replayer, line []byte, verify bool, w io.Writer) error {
	var t trace
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("not a recorded operation: %w", err)
	}
	if verify && t.Error == nil && t.Response == nil {
		return errors.New("the line has neither response nor error to compare with")
	}
	got, err := r.do(&t)
	if err != nil {
		return err
	}
	if !verify {
		_, err := fmt.Fprintf(w, "%s\n", got)
		return err
	}
	return compareAnswers(t.Op, t.answer(), got)
}
