package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/cluster"
	"github.com/cpnode/cpnode/jepsen/report"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	// cycles is how many a worker needs for its part, so that a leader can be killed in
	// the middle: each waits an interval for the next.
	cycles = 7
	// minBatches are some for each cycle and kind of file.
	minBatches = 3 * perFile * cycles
)

// harness is one run.
type harness struct {
	options
	binary  string
	cluster *cluster.Cluster
	client  *api.Client
	load    *load
	watch   *observer
	drained int64 // size of the largest state file that was seen until the topic was purged
	out     *report.Report
}

// run carries out the parts, and returns how many targets were missed. No process is
// left.
func run(ctx context.Context, o options, out io.Writer) (missed int, err error) {
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return 0, err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return 0, err
	}
	h := &harness{options: o, binary: filepath.Join(o.dir, "cpnode"), out: report.New(out)}
	if err := cluster.Provide(ctx, o.binary, h.binary); err != nil {
		return 0, err
	}
	objects, err := openObjects(ctx, o.store, o.dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, objects.close()) }()
	if h.cluster, err = cluster.New(h.binary, o.dir, "a", "b", "c"); err != nil {
		return 0, err
	}
	defer h.cluster.Close()
	for _, n := range h.cluster.Nodes {
		n.Flags = append(append(n.Flags, objects.flags...), h.pace()...)
	}
	if h.client, err = api.NewClient(api.DefaultClientConfig(h.endpoints()...)); err != nil {
		return 0, err
	}
	defer h.client.Close()
	h.load = newLoad(h.client, objects)
	for _, part := range []func(context.Context) error{h.fill, h.clean, h.refill, h.verify, h.orphans, h.check} {
		if err := errors.Join(part(ctx), h.out.Flush()); err != nil {
			return 0, fmt.Errorf("%w; see the logs in %s", err, o.dir)
		}
	}
	return h.out.Missed(), nil
}

func (h *harness) endpoints() (urls []string) {
	for _, n := range h.cluster.Nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// pace gives each worker its part in as many cycles.
func (h *harness) pace() []string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	share := func(work int) string { return strconv.Itoa((work + cycles - 1) / cycles) }
	return []string{
		"--topic.purger.interval.ms", ms(h.interval), "--topic.purger.max.batches.per.cycle", share(h.batches / 2),
		"--file.cleaner.interval.ms", ms(h.interval), "--file.cleaner.max.files.per.cycle", share(h.batches / perFile / 3),
		"--file.cleaner.retention.period.ms", ms(h.grace),
	}
}

// fill stores the batches, with the bytes of their objects.
func (h *harness) fill(ctx context.Context) error {
	if err := h.cluster.Start(ctx); err != nil {
		return err
	}
	if err := h.load.createTopics(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := h.load.fill(ctx, h.batches/perFile, mixed); err != nil {
		return err
	}
	h.out.Title("Two topics share objects in a store of type %s", h.store)
	h.out.Fact("stored", "%d batches in %d objects of %d bytes, in %s", h.batches, h.batches/perFile, perFile*batchBytes, report.Short(time.Since(began)))
	return nil
}

// clean deletes the one topic and waits until nothing is left of it, with a leader
// killed in the middle of each worker's part.
func (h *harness) clean(ctx context.Context) (err error) {
	commit, err := h.usualCommit(ctx)
	if err != nil {
		return err
	}
	before := h.stateBytes()
	if h.watch, err = h.observe(ctx); err != nil {
		return err
	}
	defer h.watch.close()
	began := time.Now()
	if _, err := h.client.DeleteTopics(ctx, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{gone}}); err != nil {
		return err
	}
	took := time.Since(began)
	remains, err := h.goneIsListed(ctx)
	if err != nil {
		return err
	}
	if !remains {
		return errors.New("the topic was gone when its deletion was answered")
	}
	h.out.Title("The topic is deleted, the leader killed while it is purged, and the next while objects are deleted")
	h.out.Judged("delete-topics", fmt.Sprintf("%s, batches remain; a commit took %s", report.Short(took), report.Short(commit)), "one entry: at most 5 commits and 50 ms", took < 5*commit+50*time.Millisecond)
	if err := h.killInTheMiddle(ctx); err != nil {
		return err
	}
	if err := h.await(ctx, "nothing to be left of the topic", h.nothingIsLeft); err != nil {
		return err
	}
	h.out.Fact("all gone", "after %s", report.Short(time.Since(began)))
	h.watch.close()
	return h.reportWatch(before)
}

// usualCommit is the median of a few commits, one after the other.
func (h *harness) usualCommit(ctx context.Context) (time.Duration, error) {
	var all [9]time.Duration
	for i := range all {
		took, err := h.load.file(ctx, onlyKept)
		if err != nil {
			return 0, err
		}
		all[i] = took
	}
	slices.Sort(all[:])
	return all[len(all)/2], nil
}

// killInTheMiddle kills the leader once it has purged something, and the next once that
// has deleted an object, and then starts both: while only one is left, nothing can go on.
func (h *harness) killInTheMiddle(ctx context.Context) error {
	purging, err := h.killOnce(ctx, "cpnode_topic_purger_batches_total")
	if err != nil {
		return err
	}
	remains, err := h.watch.goneIsListed(ctx)
	if err != nil {
		return err
	}
	if !remains {
		return errors.New("the purge was over before its leader was killed: give it longer, by --interval")
	}
	h.out.Fact("killed", "%s while it purged; the next leader goes on", purging.ID)
	cleaning, err := h.killOnce(ctx, "cpnode_file_cleaner_objects_deleted_total")
	if err != nil {
		return err
	}
	there, err := h.load.objects.keys(ctx)
	if err != nil {
		return err
	}
	left := h.load.doomed(there)
	if left == 0 {
		return errors.New("all objects were deleted before the leader was killed: give it longer, by --interval")
	}
	h.drained = h.watch.largest() // the purge is over: its last partition is what marks the files
	h.out.Fact("killed", "%s while it deleted objects; %d of about %d are left, and no majority", cleaning.ID, left, h.batches/perFile/3)
	return h.cluster.Start(ctx)
}

// killOnce kills the node that leads once this counter is above 0: of any node, since
// another may lead by now.
func (h *harness) killOnce(ctx context.Context, counter string) (leader *cluster.Node, err error) {
	err = h.await(ctx, counter+" to grow", func(ctx context.Context) (bool, error) {
		grown := false
		leader = nil
		for _, n := range h.cluster.Nodes {
			m := scrape(ctx, n)
			grown = grown || m[counter] > 0
			if m["cpnode_raft_leader"] == 1 {
				leader = n
			}
		}
		return grown && leader != nil, nil
	})
	if err == nil {
		leader.Kill()
	}
	return leader, err
}

// goneIsListed says whether a log is left of the deleted topic, as a leader knows.
func (h *harness) goneIsListed(ctx context.Context) (bool, error) { return goneIsListed(ctx, h.client) }

func goneIsListed(ctx context.Context, client *api.Client, options ...api.Option) (bool, error) {
	topics, err := client.ListTopics(ctx, &ops.ListTopicsRequest{Limit: 10}, options...)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(topics.Topics, func(t ops.TopicInfo) bool { return t.TopicID == gone }), nil
}

// nothingIsLeft: no log, and no file that waits for its object to be deleted.
func (h *harness) nothingIsLeft(ctx context.Context) (bool, error) {
	if listed, err := h.goneIsListed(ctx); err != nil || listed {
		return false, err
	}
	files, err := h.client.ListFiles(ctx, &ops.ListFilesRequest{Limit: 1, State: "deleting"})
	return err == nil && len(files.Files) == 0 && files.Next == "", err
}

// patience is how long anything may take that is waited for.
const patience = 5 * time.Minute

// await asks again and again until ok.
func (h *harness) await(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s for %s", patience, what))
	defer cancel()
	for {
		if done, err := ok(ctx); err != nil || done {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
