package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// replayer applies operations to a state of its own, through encoded entries as a
// node would.
type replayer struct {
	dir      string
	store    *store.Store
	settings ops.Settings
	index    uint64
}

// newReplayer begins with a copy of the state of a stopped node, or with an empty
// one when dataDir is empty.
func newReplayer(dataDir string) (*replayer, error) {
	dir, err := os.MkdirTemp("", "cpnode-replay-")
	if err != nil {
		return nil, err
	}
	r := &replayer{dir: dir, settings: ops.DefaultSettings()}
	if err := r.open(dataDir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}

func (r *replayer) open(dataDir string) (err error) {
	path := filepath.Join(r.dir, "state.db")
	if dataDir != "" {
		if err := raftnode.CopyState(dataDir, path); err != nil {
			return err
		}
	}
	if r.store, err = store.Open(path, store.Options{Sync: store.SyncNever}); err != nil {
		return err
	}
	return r.store.View(func(tx *store.ReadTx) error {
		r.index = tx.Meta().AppliedIndex
		return nil
	})
}

func (r *replayer) close() error { return errors.Join(r.store.Close(), os.RemoveAll(r.dir)) }

// do carries out one operation and returns its answer as a line. An error means
// that the state is damaged.
func (r *replayer) do(t *trace) ([]byte, error) {
	answer, err := r.run(t)
	var refused *ops.Error
	var malformed *wire.FieldError
	switch {
	case err == nil:
		if a, ok := answer.(interface{ WithoutMessage() any }); ok {
			answer = a.WithoutMessage() // words for people differ between releases
		}
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

func (r *replayer) run(t *trace) (answer any, err error) {
	op, ok := ops.Lookup(t.Op)
	if !ok || op.IsInternal() {
		return nil, ops.Errorf(ops.UnknownOperation, "no operation %q", t.Op)
	}
	request := op.NewRequest()
	limits := r.settings.Limits
	if n := len(t.Request); n > limits.RequestBytes {
		return nil, ops.Errorf(ops.RequestTooLarge, "the request takes %d bytes, at most %d", n, limits.RequestBytes)
	}
	if err := wire.Decode(wire.JSON, t.Request, request, wire.Limits{MaxItems: limits.MaxElements(request)}); err != nil {
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
	op, _ := ops.Lookup(cmd.Op()) // registered, since it was begun by a request
	if limit := op.EntryBytes(r.settings.Limits); len(data) > limit {
		return nil, ops.Errorf(ops.RequestTooLarge, "the log entry takes %d bytes, at most %d", len(data), limit)
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
		return tx.SetApplied(r.index, 1)
	})
	return result, err
}
