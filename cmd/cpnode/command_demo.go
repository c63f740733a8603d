package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run three nodes, kill the leader under load, find everything again",
		Long: `Starts a cluster of three processes on loopback, in a temporary directory. Writers
commit batches through all nodes; the leader is killed with SIGKILL and comes back;
every acknowledged batch is looked for at its offset on every node; a topic is deleted
and drained; a classic topic is turned into a diskless one; the nodes are stopped and
their files checked. Then it serves on, to be
looked at, until Ctrl-C. Exits 1 when anything of this does not hold.`,
		Example: "  cpnode demo\n  cpnode demo --once",
		Args:    exactly(0),
		GroupID: groupNode,
	}
	once := c.Flags().Bool("once", false, "end after the story")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := os.MkdirTemp("", "cpnode-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s := &story{out: cmd.OutOrStdout(), began: time.Now()}
		return s.tell(cmd.Context(), dir, *once)
	}
	return c
}

const (
	demoWriters = 4
	demoLoad    = 3 * time.Second // before, and again after, the leader is killed
)

var (
	demoOrders = loadTopic{id: store.TopicID{0x0d, 6: 0x40, 8: 0x80, 15: 1}, name: "orders", partitions: 6}
	demoAudit  = loadTopic{id: store.TopicID{0x0d, 6: 0x40, 8: 0x80, 15: 2}, name: "audit", partitions: 2}
)

// story is the demo under way.
type story struct {
	out     io.Writer
	began   time.Time
	cluster *cluster
}

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.out, "%6.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// tell runs the demo, and fails when any of it does not hold.
func (s *story) tell(ctx context.Context, dir string, once bool) (err error) {
	s.say("starting three nodes, in processes of their own, under %s", dir)
	if s.cluster, err = startCluster(ctx, dir); err != nil {
		return err
	}
	defer s.cluster.kill()
	leader, err := s.cluster.leader(ctx)
	if err != nil {
		return err
	}
	s.say("they formed a cluster; node %s leads", leader.id)
	for _, step := range []func(context.Context) error{s.underLoad, s.drain, s.turnDiskless, s.check} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if once {
		s.say("all of it holds")
		return nil
	}
	return s.serveOn(ctx)
}

// underLoad kills the leader while writers are at work, restarts it, and looks for
// all that was acknowledged.
func (s *story) underLoad(ctx context.Context) error {
	l, err := startLoad(ctx, s.cluster, demoWriters, demoOrders, demoAudit)
	if err != nil {
		return err
	}
	s.say("%d writers, two of them idempotent, commit to %s and %s through all nodes", demoWriters, demoOrders.name, demoAudit.name)
	if err := errors.Join(s.killLeader(ctx, l), l.finish()); err != nil {
		return err
	}
	s.say("%d files acknowledged; longest time without an acknowledgement %d ms; %d retries got the answer of an earlier attempt", l.files, l.gap.Milliseconds(), l.replayed)
	found, err := l.verify(ctx)
	if err != nil {
		return err
	}
	s.say("acknowledged = found: %d = %d batches, on every node, by linearizable and by stale reads", len(l.acked), found)
	if err := l.retryFirst(ctx); err != nil {
		return err
	}
	s.say("the first file, sent again, is answered with the same offsets")
	return nil
}

func (s *story) killLeader(ctx context.Context, l *load) error {
	if err := sleep(ctx, demoLoad); err != nil {
		return err
	}
	leader, err := s.cluster.leader(ctx)
	if err != nil {
		return err
	}
	files, batches := l.progress()
	s.say("%d files with %d batches acknowledged; kill -9 of the leader, node %s, now", files, batches, leader.id)
	leader.kill()
	next, err := s.cluster.leader(ctx)
	if err != nil {
		return err
	}
	s.say("node %s leads", next.id)
	if err := sleep(ctx, demoLoad); err != nil {
		return err
	}
	if err := leader.start(); err != nil {
		return err
	}
	if err := leader.awaitReady(ctx); err != nil {
		return err
	}
	s.say("node %s is back and has caught up", leader.id)
	return nil
}

// drain deletes the audit topic, and forgets the files that held nothing else.
func (s *story) drain(ctx context.Context) error {
	all := s.cluster.all
	deleted, err := all.DeleteTopics(ctx, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{demoAudit.id}})
	if err != nil {
		return err
	}
	purged, err := purge(ctx, all, 0, io.Discard)
	if err != nil {
		return err
	}
	if purged.MoreRemain || purged.LogsPurged != deleted.LogsDeleted {
		return fmt.Errorf("%d logs were deleted, %d purged", deleted.LogsDeleted, purged.LogsPurged)
	}
	s.say("topic %s deleted and purged: %d logs, %d batches, %d files without a batch", demoAudit.name, purged.LogsPurged, purged.BatchesDeleted, purged.FilesMarked)
	forgotten, err := s.forgetFiles(ctx)
	if err != nil {
		return err
	}
	if int64(forgotten) != purged.FilesMarked {
		return fmt.Errorf("%d files were marked, %d handed out to be deleted", purged.FilesMarked, forgotten)
	}
	s.say("%d files handed out to be deleted, and forgotten", forgotten)
	return nil
}

// forgetFiles reports every file that is handed out as deleted, as a file cleaner
// does once the objects are gone.
func (s *story) forgetFiles(ctx context.Context) (forgotten int, err error) {
	for {
		doomed, err := s.cluster.all.GetFilesToDelete(ctx, &ops.GetFilesToDeleteRequest{MarkedBefore: time.Now().UnixMilli() + 1, Limit: pageRows})
		if err != nil || len(doomed.Files) == 0 {
			return forgotten, err
		}
		request := &ops.DeleteFilesRequest{}
		for _, f := range doomed.Files {
			request.ObjectKeys = append(request.ObjectKeys, f.ObjectKey)
		}
		if _, err := s.cluster.all.DeleteFiles(ctx, request); err != nil {
			return forgotten, err
		}
		forgotten += len(doomed.Files)
	}
}

// check stops the nodes where all have applied the same, and compares what they
// stored.
func (s *story) check(ctx context.Context) error {
	index, err := s.cluster.settle(ctx)
	if err != nil {
		return err
	}
	s.say("all nodes have applied entry %d; stopping them to check their files", index)
	if err := s.cluster.stop(); err != nil {
		return err
	}
	digest, err := checkNodes(ctx, s.cluster, s.out)
	if err != nil {
		return err
	}
	s.say("three clean nodes, one digest: %s", digest)
	return nil
}

// checkNodes checks the directories of stopped nodes, prints what was found, and
// returns the digest that all share.
func checkNodes(ctx context.Context, c *cluster, w io.Writer) (digest string, err error) {
	var rows [][]string
	var digests []string
	for _, n := range c.nodes {
		r, err := raftnode.CheckDir(ctx, store.Child{}, n.dir)
		if err == nil {
			err = r.Err()
		}
		if err != nil {
			return "", fmt.Errorf("node %s: %w", n.id, err)
		}
		t := r.State.Totals
		rows = append(rows, []string{"         " + n.id, "clean", fmt.Sprint(r.State.AppliedIndex), fmt.Sprint(t.Batches), fmt.Sprint(t.FilesUploaded), r.State.Digest})
		digests = append(digests, r.State.Digest)
	}
	p := printer{w: w}
	p.table([]string{"         NODE", "STATE", "APPLIED", "BATCHES", "FILES", "DIGEST"}, rows)
	for _, d := range digests {
		if d != digests[0] {
			return "", errors.New("the nodes' digests differ")
		}
	}
	return digests[0], p.err
}

// serveOn lets the nodes run until the command is ended.
func (s *story) serveOn(ctx context.Context) error {
	if err := s.cluster.startAll(ctx); err != nil {
		return err
	}
	var urls []string
	for _, n := range s.cluster.nodes {
		urls = append(urls, n.url)
	}
	s.say("the nodes serve again, until Ctrl-C. Try, in another terminal:")
	fmt.Fprintf(s.out, `
  export CPNODE_ENDPOINTS=%[1]s
  %[2]s topic list
  %[2]s topic describe orders
  %[2]s files list --limit 5
  %[2]s switch status
  %[2]s switch watch --from-index 0
  curl %[3]s/readyz
  curl %[3]s/metrics
  curl %[3]s/openapi.json

`, strings.Join(urls, ","), program, urls[0])
	<-ctx.Done()
	return s.cluster.stop()
}
