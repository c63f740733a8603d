package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/pruner"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

// workers are the background workers of a node.
type workers struct {
	node *raftnode.Node
	once map[string]func(context.Context) ([]api.WorkerTotal, error)
}

// startWorkers makes the background workers of a node, which run while it leads, and
// lets plane answer for them. objects is nil when there is no object store.
func startWorkers(c config.Config, node *raftnode.Node, plane *api.Embedded, objects *objectstore.Lazy, logger *slog.Logger, registerer prometheus.Registerer) {
	deps := worker.Deps{Logger: logger, Registerer: registerer}
	limits := c.Node.Settings.Limits
	c.FileCleaner, c.Pruner = c.FileCleaner.Within(limits), c.Pruner.Within(limits)
	state := func(ctx context.Context, fn func(*store.ReadTx) error) error {
		_, err := node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, fn)
		return err
	}
	remote, reporter := pruner.NewRemoteOffsets(c.Pruner.MaxPartitions), pruner.NewCrossTierReporter(plane, c.Pruner, deps)
	w := workers{node, map[string]func(context.Context) ([]api.WorkerTotal, error){}}
	start(w, "topic-purger", purger.NewTopicPurger(c.TopicPurger, plane, state, deps), purgeTotals)
	start(w, "consolidation-pruner", pruner.NewConsolidationPruner(plane, remote, nil, c.Pruner, deps), pruneTotals)
	start(w, "retention-enforcer", pruner.NewRetentionEnforcer(plane, c.Pruner, deps), retentionTotals)
	start(w, "producer-expirer", pruner.NewProducerExpirer(plane, c.Pruner, deps), expireTotals)
	start(w, "fence-expirer", pruner.NewFenceExpirer(plane, c.Pruner, deps), expireTotals)
	start(w, "replay-expirer", pruner.NewReplayExpirer(plane, c.Pruner, deps), expireTotals)
	start(w, "cross-tier-reporter", reporter, reportTotals)
	if objects != nil {
		node.WhileLeading(func(ctx context.Context) { sayUnready(ctx, objects, logger) })
		start(w, "file-cleaner", purger.NewFileCleaner(c.FileCleaner, plane, objects, deps), cleanTotals)
	} else {
		logger.Info("objects are not deleted: object.store.type is none")
		w.once["file-cleaner"] = func(context.Context) ([]api.WorkerTotal, error) {
			return nil, ops.Errorf(ops.InvalidRequest, "worker: file-cleaner has no object store; give object.store.type to all nodes, and restart them")
		}
	}
	plane.SetWorkers(api.Workers{
		RunOnce:             w.once,
		ReportRemoteOffsets: func(offsets []ops.PruneLog) bool { return remote.Report(offsets) == nil },
		ReportLogStarts:     func(starts []ops.AdvanceLogStart) bool { return reportLogStarts(reporter, starts) },
	})
}

// sayUnready logs what keeps the store from being opened, before there is an object to
// delete: most likely its configuration.
func sayUnready(ctx context.Context, objects *objectstore.Lazy, logger *slog.Logger) {
	if err := objects.Ready(ctx); err != nil && ctx.Err() == nil {
		logger.Warn("the object store cannot be opened, which is tried again when there are objects to delete", "error", err)
	}
}

// reportLogStarts says whether the reporter had room for all.
func reportLogStarts(reporter *pruner.CrossTierReporter, starts []ops.AdvanceLogStart) bool {
	complete := true
	for _, s := range starts {
		taken := reporter.AdvanceRemoteLogStart(ops.LogRef{TopicID: s.TopicID, Partition: s.Partition}, s.RemoteLogStartOffset)
		complete = complete && taken
	}
	return complete
}

// runner is a worker by the type of its totals.
type runner[T any] interface {
	Run(context.Context)
	RunOnce(context.Context) (T, error)
}

func start[T any](w workers, name string, r runner[T], show func(T) []api.WorkerTotal) {
	w.node.WhileLeading(r.Run)
	w.once[name] = func(ctx context.Context) ([]api.WorkerTotal, error) {
		totals, err := r.RunOnce(ctx)
		return show(totals), err
	}
}

func purgeTotals(t ops.PurgeDeletedLogsResponse) []api.WorkerTotal {
	return []api.WorkerTotal{
		{Name: "batches_deleted", Value: t.BatchesDeleted}, {Name: "logs_purged", Value: t.LogsPurged}, {Name: "files_marked", Value: t.FilesMarked},
		{Name: "more_remain", Value: number(t.MoreRemain)}, {Name: "cap_reached", Value: number(t.CapReached)},
	}
}

func cleanTotals(t purger.CleanTotals) []api.WorkerTotal {
	return []api.WorkerTotal{
		{Name: "objects_deleted", Value: t.ObjectsDeleted}, {Name: "bytes_deleted", Value: t.BytesDeleted}, {Name: "files_forgotten", Value: t.FilesForgotten},
		{Name: "objects_failed", Value: t.ObjectsFailed}, {Name: "cap_reached", Value: number(t.CapReached)},
	}
}

func pruneTotals(t pruner.PruneTotals) []api.WorkerTotal {
	return []api.WorkerTotal{
		{Name: "partitions", Value: t.Partitions}, {Name: "batches_deleted", Value: t.BatchesDeleted}, {Name: "bytes_deleted", Value: t.BytesDeleted},
		{Name: "more_remain", Value: number(t.MoreRemain)},
	}
}

func retentionTotals(t pruner.RetentionTotals) []api.WorkerTotal {
	return []api.WorkerTotal{
		{Name: "partitions", Value: t.Partitions}, {Name: "batches_deleted", Value: t.BatchesDeleted}, {Name: "bytes_deleted", Value: t.BytesDeleted},
	}
}

func expireTotals(t pruner.ExpireTotals) []api.WorkerTotal {
	return []api.WorkerTotal{{Name: "removed", Value: t.Removed}}
}

func reportTotals(t pruner.ReportTotals) []api.WorkerTotal {
	return []api.WorkerTotal{{Name: "partitions", Value: t.Partitions}, {Name: "unknown", Value: t.Unknown}}
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
