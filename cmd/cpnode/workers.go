package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/pruner"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

// startWorkers makes the background workers of a node, which run while it leads.
// objects is nil when there is no object store.
func startWorkers(c config.Config, node *raftnode.Node, plane *api.Embedded, objects objectstore.Store, logger *slog.Logger, registerer prometheus.Registerer) {
	deps := worker.Deps{Logger: logger, Registerer: registerer}
	state := func(ctx context.Context, fn func(*store.ReadTx) error) error {
		_, err := node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, fn)
		return err
	}
	runs := []func(context.Context){
		purger.NewTopicPurger(c.TopicPurger, plane, state, deps).Run,
		pruner.NewRetentionEnforcer(plane, c.Pruner, deps).Run,
		pruner.NewProducerExpirer(plane, c.Pruner, deps).Run,
		pruner.NewFenceExpirer(plane, c.Pruner, deps).Run,
		pruner.NewReplayExpirer(plane, c.Pruner, deps).Run,
	}
	if objects != nil {
		runs = append(runs, purger.NewFileCleaner(c.FileCleaner, plane, objects, deps).Run)
	} else {
		logger.Info("objects are not deleted: object.store.type is none")
	}
	for _, run := range runs {
		node.WhileLeading(run)
	}
}
