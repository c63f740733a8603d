package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/ops"
)

func replayCommand() *cobra.Command {
	var verify bool
	var dataDir string
	c := &cobra.Command{
		Use:   "replay [--verify] FILE...",
		Short: "Run recorded operations on a fresh state",
		Long: `Reads JSON lines {"op", "now_ms", "request"} and runs each through a log entry on a
state of its own, each file on a fresh one. Writes one line each: {"response": ...}
or {"error": {"code": ...}}. With --verify it compares with the response or error in
the file instead, and exits 1 at the first difference.`,
		Example: `  cpnode replay --verify testdata/golden/*.jsonl
  cpnode replay --data-dir cpnode-data captured.jsonl`,
		Args:    atLeastOne,
		GroupID: groupOffline,
	}
	c.Flags().BoolVar(&verify, "verify", false, "compare with the answers in the file")
	c.Flags().StringVar(&dataDir, "data-dir", "", "begin with a copy of the state in this directory of a stopped node")
	c.RunE = func(cmd *cobra.Command, files []string) error {
		for _, file := range files {
			if err := replayFile(file, dataDir, verify, cmd.OutOrStdout()); err != nil {
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

// replayFile replays one file and writes its answers, or with verify compares them.
func replayFile(file, dataDir string, verify bool, w io.Writer) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	r, err := newReplayer(dataDir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush(), r.close()) }()
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 1<<20), maxTraceLine)
	operations := 0
	for number := 1; scanner.Scan(); number++ {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		operations++
		if err := replayLine(r, line, verify, out); err != nil {
			return fmt.Errorf("%s:%d: %w", file, number, err)
		}
	}
	if verify && scanner.Err() == nil {
		fmt.Fprintf(out, "%s: %d operations, no difference\n", file, operations)
	}
	return scanner.Err()
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
