package api

import (
	"context"
	"maps"
	"slices"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// verb is what answers POST /v1/<name>: an operation of the registry, or a call
// about the cluster itself or its workers, which is no log entry of its own.
type verb struct {
	name, summary string
	// write may change something: it takes no read options.
	write bool
	admin bool // about the cluster or its workers
	// newRequest and newResponse make what bodies are decoded into.
	newRequest  func() ops.Request
	newResponse func() any
	// run carries out a request that was found valid, on this node.
	run func(ctx context.Context, e *Embedded, req ops.Request, read raftnode.ReadOptions) (answer any, info Info, err error)
}

// verbs are all of them, by name.
var verbs = makeVerbs()

func makeVerbs() map[string]*verb {
	all := map[string]*verb{}
	for _, op := range ops.All() {
		run := runQuery
		if op.IsWrite() {
			run = runWrite
		}
		all[op.Name] = &verb{name: op.Name, summary: op.Summary, write: op.IsWrite(), newRequest: op.NewRequest, newResponse: op.NewResponse, run: run}
	}
	all["broker-heartbeat"].run = runHeartbeat
	for _, v := range adminVerbs {
		if all[v.name] != nil {
			panic("api: verb " + v.name + " is there twice")
		}
		all[v.name] = v
	}
	return all
}

// allVerbs is every verb, by name.
func allVerbs() []*verb {
	all := make([]*verb, 0, len(verbs))
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		all = append(all, verbs[name])
	}
	return all
}

func runWrite(ctx context.Context, e *Embedded, req ops.Request, _ raftnode.ReadOptions) (any, Info, error) {
	result, err := e.node.Propose(ctx, req.(ops.Write))
	return result.Answer, Info{Index: result.Index}, err
}

// runHeartbeat asks the node's sessions, which log what is to be logged.
func runHeartbeat(ctx context.Context, e *Embedded, req ops.Request, _ raftnode.ReadOptions) (any, Info, error) {
	answer, index, err := e.sessions.Heartbeat(ctx, req.(*ops.BrokerHeartbeatRequest))
	return answer, Info{Index: index}, err
}

func runQuery(ctx context.Context, e *Embedded, req ops.Request, read raftnode.ReadOptions) (answer any, info Info, err error) {
	saw, err := e.node.View(ctx, read, func(tx *store.ReadTx) error {
		answer, err = req.(ops.Query).Query(tx, e.limits)
		return err
	})
	return answer, Info{AppliedIndex: saw.AppliedIndex, Staleness: saw.Staleness}, err
}
