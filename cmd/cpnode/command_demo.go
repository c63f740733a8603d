package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func demoCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use: "demo [--once]", GroupID: groupNode, Short: "Run three nodes, kill the leader under load, find everything again", Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error { return demo(c.Context(), once, c.OutOrStdout()) },
	}
	c.Flags().BoolVar(&once, "once", false, "end after the story instead of serving on")
	return c
}

const (
	demoWriters    = 4
	demoPartitions = 6
	demoLoad       = 3 * time.Second // before, and again after, the leader is killed
	demoPatience   = 30 * time.Second
)

var (
	demoOrders = store.TopicID{0x0d, 15: 1}
	demoAudit  = store.TopicID{0x0d, 15: 2}
)

// demo tells the story of one cluster and fails when any of it does not hold.
func demo(ctx context.Context, once bool, w io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "cpnode-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	c, err := startCluster(ctx, dir)
	if err != nil {
		return err
	}
	defer c.kill()
	say("three nodes are up, node %s leads; data under %s", c.leader(ctx), dir)
	if err := demoTopics(ctx, c); err != nil {
		return err
	}
	say("topics orders (%d partitions) and audit (2) made", demoPartitions)

	load, err := demoUnderLoad(ctx, c, say)
	if err != nil {
		return err
	}
	found, err := load.verify(ctx, c)
	if err != nil {
		return err
	}
	say("acknowledged = found: %d = %d batches, read from every node", load.batches(), found)
	if found != load.batches() {
		return errors.New("acknowledged batches are missing")
	}
	if err := demoDrain(ctx, c, say); err != nil {
		return err
	}
	if err := demoCheck(ctx, c, say); err != nil || once {
		return err
	}
	if err := c.startAll(ctx); err != nil {
		return err
	}
	say("serving again until Ctrl-C; try:")
	for _, n := range c.nodes {
		fmt.Fprintf(w, "         curl %s/readyz %s/metrics   # node %s\n", n.url, n.url, n.id)
	}
	<-ctx.Done()
	return nil
}

func demoTopics(ctx context.Context, c *cluster) error {
	_, err := retry[ops.CreateTopicsResponse](ctx, c, "create-topics", &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{
		{TopicID: demoOrders, TopicName: "orders", NumPartitions: demoPartitions},
		{TopicID: demoAudit, TopicName: "audit", NumPartitions: 2},
	}})
	return err
}

// demoUnderLoad kills the leader while writers are at work, and restarts it.
func demoUnderLoad(ctx context.Context, c *cluster, say func(string, ...any)) (*load, error) {
	l := newLoad(c)
	var stop atomic.Bool
	done := l.start(ctx, demoWriters, &stop)
	if err := sleep(ctx, demoLoad); err != nil {
		return nil, err
	}
	victim := c.leader(ctx)
	say("%d files acknowledged; kill -9 of the leader, node %s, now", l.files(), victim)
	if err := c.node(victim).kill(); err != nil {
		return nil, err
	}
	if err := sleep(ctx, demoLoad); err != nil {
		return nil, err
	}
	if err := c.node(victim).start(c.peers()); err != nil {
		return nil, err
	}
	say("node %s is started again", victim)
	if err := sleep(ctx, time.Second); err != nil {
		return nil, err
	}
	stop.Store(true)
	if err := <-done; err != nil {
		return nil, err
	}
	say("%d files acknowledged by %d writers; longest wait for an acknowledgement %d ms", l.files(), demoWriters, l.longest().Milliseconds())
	return l, nil
}

// demoDrain deletes the audit topic and forgets the files that only it used.
func demoDrain(ctx context.Context, c *cluster, say func(string, ...any)) error {
	deleted, err := retry[ops.DeleteTopicsResponse](ctx, c, "delete-topics", &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{demoAudit}})
	if err != nil {
		return err
	}
	purged, err := retry[ops.PurgeDeletedLogsResponse](ctx, c, "purge-deleted-logs", &ops.PurgeDeletedLogsRequest{})
	if err != nil {
		return err
	}
	say("topic audit deleted (%d logs) and drained: %d batches purged, %d files without batches", deleted.LogsDeleted, purged.BatchesDeleted, purged.FilesMarked)
	if purged.MoreRemain {
		return errors.New("the purge left something behind")
	}
	doomed, err := retry[ops.GetFilesToDeleteResponse](ctx, c, "get-files-to-delete", &ops.GetFilesToDeleteRequest{MarkedBefore: time.Now().UnixMilli() + 1})
	if err != nil || len(doomed.Files) == 0 {
		return err
	}
	var keys []string
	for _, f := range doomed.Files[:min(len(doomed.Files), ops.DefaultLimits().Items)] {
		keys = append(keys, f.ObjectKey)
	}
	if _, err := retry[ops.DeleteFilesResponse](ctx, c, "delete-files", &ops.DeleteFilesRequest{ObjectKeys: keys}); err != nil {
		return err
	}
	say("%d files forgotten", len(keys))
	return nil
}

// demoCheck stops the nodes at one applied index and compares their digests.
func demoCheck(ctx context.Context, c *cluster, say func(string, ...any)) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.stop()
	digests := map[string]bool{}
	for _, n := range c.nodes {
		report, err := store.CheckInChild(ctx, filepath.Join(n.dir, "state.db"))
		if err == nil {
			err = report.Err()
		}
		if err != nil {
			return fmt.Errorf("node %s: %w", n.id, err)
		}
		digests[report.Digest] = true
		say("node %s: clean, applied index %d, digest %s", n.id, report.AppliedIndex, report.Digest)
	}
	if len(digests) != 1 {
		return errors.New("the nodes' digests differ")
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
