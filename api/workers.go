package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/cpnode/cpnode/ops"
)

// Workers are the background workers beside a node.
type Workers struct {
	// RunOnce carries out one cycle now, by the worker's name, and says what it did.
	// Errors that are no *ops.Error are answered as INTERNAL and logged.
	RunOnce map[string]func(context.Context) ([]WorkerTotal, error)
	// ReportRemoteOffsets takes the last offsets that tiered storage holds. complete is
	// false when there was no room for some. Where nil, such reports are refused.
	ReportRemoteOffsets func([]ops.PruneLog) (complete bool)
	// ReportLogStarts takes the first offsets that tiered storage holds; the same.
	ReportLogStarts func([]ops.AdvanceLogStart) (complete bool)
}

// RunWorkerRequest asks for one cycle of a worker now, after one that is under way.
type RunWorkerRequest struct {
	Worker string `json:"worker" doc:"Its name, such as topic-purger; an unknown one is refused with those there are."`
}

// RunWorkerResponse is what the cycle did, also when it failed after it had done
// something; one that did nothing and failed is an error.
type RunWorkerResponse struct {
	Totals  []WorkerTotal `json:"totals"`
	Error   ops.Code      `json:"error" doc:"NONE, or why the cycle ended before it was through; what the totals say was done all the same."`
	Message string        `json:"message" doc:"The same for people, empty for NONE."`
}

// WorkerTotal is one number of a cycle; 1 stands for yes.
type WorkerTotal struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// ReportRemoteOffsetsRequest says what tiered storage holds, for the consolidation
// pruner and the cross-tier reporter. The leader keeps it in memory: report again and
// again.
type ReportRemoteOffsetsRequest struct {
	Offsets   []ops.PruneLog        `json:"offsets" doc:"Offsets not above those reported before change nothing."`
	LogStarts []ops.AdvanceLogStart `json:"log_starts" default:"[]" doc:"For advance-cross-tier-log-start, gathered for a moment; those not above what was reported before change nothing."`
}

// ReportRemoteOffsetsResponse says whether all was taken.
type ReportRemoteOffsetsResponse struct {
	Complete bool `json:"complete" doc:"False: the leader had no room for some partitions."`
}

// Validate refuses what names nothing.
func (r *RunWorkerRequest) Validate(ops.Limits) error { return given("worker", r.Worker) }

// Validate bounds the number of partitions.
func (r *ReportRemoteOffsetsRequest) Validate(l ops.Limits) error {
	if n := len(r.Offsets) + len(r.LogStarts); n > l.Items {
		return ops.Errorf(ops.RequestTooLarge, "offsets, log_starts: %d elements, at most %d", n, l.Items)
	}
	return nil
}

// workerVerbs is the table of calls about the workers of the leader.
var workerVerbs = []*verb{
	admin("run-worker", "Carry out one cycle of a background worker now.", true, runWorker),
	direct("report-remote-offsets", "Say what tiered storage holds, for the consolidation pruner and the cross-tier reporter.", true, reportRemoteOffsets),
}

// SetWorkers makes the node's workers known, whose calls this is for. Before, and
// without any, calls about them are refused.
func (e *Embedded) SetWorkers(w Workers) { e.workers.Store(&w) }

// ownWorkers are those of this node, which must lead.
func (e *Embedded) ownWorkers() (*Workers, error) {
	if leader := e.node.LeaderID(); leader != e.id {
		return nil, ops.Errorf(ops.NoLeader, "this node is not the leader")
	}
	w := e.workers.Load()
	if w == nil {
		return nil, ops.Errorf(ops.InvalidRequest, "worker: the leader, %s, runs no workers", e.id)
	}
	return w, nil
}

func runWorker(ctx context.Context, e *Embedded, r *RunWorkerRequest) (*RunWorkerResponse, error) {
	w, err := e.ownWorkers()
	if err != nil {
		return nil, err
	}
	run := w.RunOnce[r.Worker]
	if run == nil {
		names := slices.Sorted(maps.Keys(w.RunOnce))
		return nil, ops.Errorf(ops.InvalidRequest, "worker: %q is none of %s", r.Worker, strings.Join(names, ", "))
	}
	totals, err := run(ctx)
	answer := &RunWorkerResponse{Totals: totals, Error: ops.None}
	if err == nil {
		return answer, nil
	}
	if !slices.ContainsFunc(totals, func(t WorkerTotal) bool { return t.Value != 0 }) {
		return nil, err
	}
	answer.Error, answer.Message = ops.Internal, err.Error()
	if e, ok := errors.AsType[*ops.Error](err); ok {
		answer.Error = e.Code
	}
	return answer, nil
}

func reportRemoteOffsets(_ context.Context, e *Embedded, r *ReportRemoteOffsetsRequest) (*ReportRemoteOffsetsResponse, error) {
	w, err := e.ownWorkers()
	if err != nil {
		return nil, err
	}
	switch {
	case w.ReportRemoteOffsets == nil && len(r.Offsets) > 0:
		return nil, ops.Errorf(ops.InvalidRequest, "offsets: the leader, %s, runs no consolidation pruner", e.id)
	case w.ReportLogStarts == nil && len(r.LogStarts) > 0:
		return nil, ops.Errorf(ops.InvalidRequest, "log_starts: the leader, %s, runs no cross-tier reporter", e.id)
	}
	offsets := len(r.Offsets) == 0 || w.ReportRemoteOffsets(r.Offsets)
	starts := len(r.LogStarts) == 0 || w.ReportLogStarts(r.LogStarts)
	return &ReportRemoteOffsetsResponse{offsets && starts}, nil
}

// RunWorker carries out one cycle of a worker of the leader.
func (o Operations) RunWorker(ctx context.Context, r *RunWorkerRequest, opts ...Option) (*RunWorkerResponse, error) {
	return do[RunWorkerResponse](ctx, o.by, "run-worker", r, opts)
}

// ReportRemoteOffsets tells the leader what tiered storage holds.
func (o Operations) ReportRemoteOffsets(ctx context.Context, r *ReportRemoteOffsetsRequest, opts ...Option) (*ReportRemoteOffsetsResponse, error) {
	return do[ReportRemoteOffsetsResponse](ctx, o.by, "report-remote-offsets", r, opts)
}
