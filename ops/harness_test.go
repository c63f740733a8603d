package ops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// fataler is what a test, a benchmark and a property check have in common.
type fataler interface {
	require.TestingT
	Helper()
}

// node is one state to which every write comes by way of an encoded log entry.
type node struct {
	t        fataler
	path     string
	store    *store.Store
	settings ops.Settings
	log      [][]byte // every entry so far
	fromRead bool     // the latest write was answered by reading
	removed  int64    // the most rows that one entry removed
	looks    int      // how often writes looked at the state
	index    uint64

	checkpoints map[uint64]store.Digest // by index, of those that were proposed here
}

func newNode(t testing.TB, settings ops.Settings) *node {
	n := &node{t: t, path: filepath.Join(t.TempDir(), "state.db"), settings: settings}
	n.open()
	t.Cleanup(n.close)
	return n
}

func (n *node) open() {
	s, err := store.Open(n.path, store.Options{Sync: store.SyncNever, InitialMmapBytes: 1 << 24})
	require.NoError(n.t, err)
	n.store = s
}

// do carries out one operation as a client would see it: its answer in JSON, or
// the code of the error object.
func (n *node) do(op string, nowMs int64, request []byte) (answer []byte, code ops.Code) {
	n.t.Helper()
	answer, err := n.ask(op, nowMs, request)
	var refused *ops.Error
	var malformed *wire.FieldError
	switch {
	case err == nil:
		return answer, ""
	case errors.As(err, &malformed):
		return nil, ops.InvalidRequest
	}
	require.True(n.t, errors.As(err, &refused), "%s %s: %v", op, request, err)
	return nil, refused.Code
}

func (n *node) ask(op string, nowMs int64, request []byte) ([]byte, error) {
	o, ok := ops.Lookup(op)
	require.True(n.t, ok, op)
	r := o.NewRequest()
	if err := wire.Decode(wire.JSON, request, r, wire.Limits{}); err != nil {
		return nil, err
	}
	result, err := n.run(r, nowMs)
	if err != nil {
		return nil, err
	}
	return wire.Append(wire.JSON, nil, result)
}

func (n *node) run(r ops.Request, nowMs int64) (result any, err error) {
	if err := r.Validate(n.settings.Limits); err != nil {
		return nil, err
	}
	if w, ok := r.(ops.Write); ok {
		out, err := ops.Run(w, n.settings, n.view, func() int64 { return nowMs }, func(cmd ops.Command) (any, error) { return n.propose(cmd, nowMs) })
		n.fromRead = out.FromRead
		return out.Answer, err
	}
	err = n.store.View(func(tx *store.ReadTx) error {
		result, err = r.(ops.Query).Query(tx, n.settings.Limits)
		return err
	})
	return result, err
}

// view counts how often a write looks at the state.
func (n *node) view(fn func(*store.ReadTx) error) error {
	n.looks++
	return n.store.View(fn)
}

func (n *node) propose(cmd ops.Command, nowMs int64) (any, error) {
	entry, err := ops.Encode(cmd, nowMs)
	require.NoError(n.t, err)
	n.log = append(n.log, entry)
	before := n.meta().Totals
	results, err := n.apply(entry)
	if err != nil {
		return nil, err
	}
	if c, ok := results[0].(ops.Checkpoint); ok {
		if n.checkpoints == nil {
			n.checkpoints = map[uint64]store.Digest{}
		}
		n.checkpoints[n.index] = c.Digest
	}
	after := n.meta().Totals
	n.removed = max(n.removed, before.Batches-after.Batches+before.ProducerStates-after.ProducerStates+before.DeletedLogs-after.DeletedLogs)
	return results[0], nil
}

// apply carries out entries in one transaction.
func (n *node) apply(entries ...[]byte) (results []any, err error) {
	err = n.store.Update(func(tx *store.WriteTx) error {
		for i, data := range entries {
			e, err := ops.Decode(data)
			if err != nil {
				return err
			}
			result, err := ops.Apply(tx, e)
			if err != nil {
				return err
			}
			results = append(results, result)
			if err := tx.SetApplied(n.index+uint64(i)+1, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		n.index += uint64(len(entries))
	}
	return results, err
}

func (n *node) meta() (m store.Meta) {
	require.NoError(n.t, n.store.View(func(tx *store.ReadTx) error {
		m = tx.Meta()
		return nil
	}))
	return m
}

// close leaves a file in which every invariant was recounted.
func (n *node) close() {
	require.NoError(n.t, n.store.Close())
	report, err := store.Check(n.path)
	require.NoError(n.t, err)
	require.NoError(n.t, report.Err(), "%q", report.Problems)
}

func (n *node) reopen() {
	n.close()
	n.open()
}

// canonical writes JSON with sorted keys and exact numbers.
func canonical(t fataler, text []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	require.NoError(t, decoder.Decode(&value), "%s", text)
	out, err := json.Marshal(value)
	require.NoError(t, err)
	return string(out)
}
