package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func replayCommand() *cobra.Command {
	var verify bool
	var dataDir string
	c := &cobra.Command{
		Use: "replay [--verify] FILE...", GroupID: groupOffline, Short: "Run recorded operations on a fresh state", Args: atLeastOne,
		Example: "  cpnode replay --verify testdata/golden/*.jsonl",
		RunE: func(c *cobra.Command, files []string) error {
			for _, file := range files {
				lines, err := replayFile(file, dataDir, verify, c.OutOrStdout())
				if err != nil {
					return err
				}
				if verify {
					fmt.Fprintf(c.OutOrStdout(), "%s: %d lines, no difference\n", file, lines)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&verify, "verify", false, "compare with the answers in the file; exit 1 at the first difference")
	c.Flags().StringVar(&dataDir, "data-dir", "", "begin with a copy of this directory's state instead of an empty one")
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

const maxTraceLine = 64 << 20

func replayFile(file, dataDir string, verify bool, w io.Writer) (lines int, err error) {
	in, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	r, err := newReplayer(dataDir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	out := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush()) }()
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 1<<20), maxTraceLine)
	for scanner.Scan() {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		lines++
		var t trace
		if err := json.Unmarshal(scanner.Bytes(), &t); err != nil {
			return lines, fmt.Errorf("%s:%d: not a recorded operation: %w", file, lines, err)
		}
		got, err := r.line(&t)
		if err != nil {
			return lines, fmt.Errorf("%s:%d: %w", file, lines, err)
		}
		if !verify {
			fmt.Fprintf(out, "%s\n", got)
			continue
		}
		if want := t.answer(); !equalJSON(got, want) {
			return lines, fmt.Errorf("%s:%d: %s answers otherwise\n  want %s\n  got  %s", file, lines, t.Op, want, got)
		}
	}
	return lines, scanner.Err()
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

// equalJSON compares without the order of keys and with exact numbers.
func equalJSON(a, b []byte) bool {
	var x, y any
	for data, v := range map[*[]byte]*any{&a: &x, &b: &y} {
		d := json.NewDecoder(bytes.NewReader(*data))
		d.UseNumber()
		if d.Decode(v) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}

// replayer applies operations to a state of its own, through encoded entries as
// a node would.
type replayer struct {
	dir      string
	store    *store.Store
	settings ops.Settings
	index    uint64
}

func newReplayer(dataDir string) (*replayer, error) {
	dir, err := os.MkdirTemp("", "cpnode-replay-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "state.db")
	if dataDir != "" {
		state, err := os.ReadFile(filepath.Join(dataDir, "state.db"))
		if err == nil {
			err = os.WriteFile(path, state, 0o600)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("copy the state: %w", err), os.RemoveAll(dir))
		}
	}
	s, err := store.Open(path, store.Options{NoSync: true})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r := &replayer{dir: dir, store: s, settings: ops.DefaultSettings()}
	return r, s.View(func(tx *store.ReadTx) error {
		r.index = tx.Meta().AppliedIndex
		return nil
	})
}

func (r *replayer) close() error { return errors.Join(r.store.Close(), os.RemoveAll(r.dir)) }

// line carries out one operation; an error is a state that cannot go on.
func (r *replayer) line(t *trace) ([]byte, error) {
	answer, err := r.do(t)
	var refused *ops.Error
	var malformed *wire.FieldError
	switch {
	case err == nil:
		body, err := wire.Append(wire.JSON, nil, answer)
		return responseLine(body), err
	case errors.As(err, &refused):
		return errorLine(refused.Code), nil
	case errors.Is(err, wire.ErrTooLarge):
		return errorLine(ops.RequestTooLarge), nil
	case errors.As(err, &malformed):
		return errorLine(ops.InvalidRequest), nil
	}
	return nil, err
}

func (r *replayer) do(t *trace) (answer any, err error) {
	op, ok := ops.Lookup(t.Op)
	if !ok {
		return nil, ops.Errorf(ops.UnknownOperation, "no operation %q", t.Op)
	}
	request := op.NewRequest()
	limits := r.settings.Limits
	if err := wire.Decode(wire.JSON, t.Request, request, wire.Limits{MaxItems: max(limits.Items, limits.Batches)}); err != nil {
		return nil, err
	}
	if err := request.Validate(limits); err != nil {
		return nil, err
	}
	if w, ok := request.(ops.Write); ok {
		out, err := ops.Run(w, r.settings, r.store.View, func() int64 { return t.NowMs },
			func(cmd ops.Command) (any, error) { return r.apply(cmd, t.NowMs) })
		return out.Answer, err
	}
	err = r.store.View(func(tx *store.ReadTx) error {
		answer, err = request.(ops.Query).Query(tx, limits)
		return err
	})
	return answer, err
}

// apply logs one command: encoded, decoded and applied in a transaction.
func (r *replayer) apply(cmd ops.Command, nowMs int64) (result any, err error) {
	data, err := ops.Encode(cmd, nowMs)
	if err != nil {
		return nil, err
	}
	if len(data) > r.settings.Limits.EntryBytes {
		return nil, ops.Errorf(ops.RequestTooLarge, "the log entry takes %d bytes, at most %d", len(data), r.settings.Limits.EntryBytes)
	}
	entry, err := ops.Decode(data)
	if err != nil {
		return nil, err
	}
	err = r.store.Update(func(tx *store.WriteTx) error {
		if result, err = ops.Apply(tx, entry); err != nil {
			return err
		}
		r.index++
		tx.SetApplied(r.index, 1)
		return nil
	})
	return result, err
}
