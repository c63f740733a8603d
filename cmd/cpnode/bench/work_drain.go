package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// Caps of one call, as the workers' defaults are.
const (
	purgeCap = 20_000
	trimCap  = 2_000
)

// drain is one way to remove all batches of a topic.
type drain struct {
	work string
	// calls removes the batches; each call made is passed through timed.
	calls func(ctx context.Context, c *cluster, t topic, timed func(func() (deleted int64, err error)) error) error
}

func (r *runner) purge(ctx context.Context) error {
	return r.drainAll(ctx, drain{"purge", purgeTopic})
}

func (r *runner) prune(ctx context.Context) error {
	return r.drainAll(ctx, drain{"prune", trimTopic(pruneOnce)})
}

func (r *runner) retention(ctx context.Context) error {
	return r.drainAll(ctx, drain{"retention", trimTopic(retainOnce)})
}

// drainAll measures the drain on each cluster size, of files that hold nothing
// else and, where the scale says so, of files shared over many partitions.
func (r *runner) drainAll(ctx context.Context, d drain) error {
	for _, nodes := range r.options.Nodes {
		for _, partitions := range r.drainPartitions() {
			err := r.withCluster(ctx, nodes, func(c *cluster) error { return r.drainOn(ctx, c, d, partitions) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	ownPartitions    = 10
	sharedPartitions = 1000
)

func (r *runner) drainPartitions() []int {
	if r.options.Scale.Wide {
		return []int{ownPartitions, sharedPartitions}
	}
	return []int{ownPartitions}
}

// drainRun is what one drain saw: its own calls, and a client that committed
// beside it, before and during.
type drainRun struct {
	calls        sample
	deleted      int64
	idle, during sample
}

func (r *runner) drainOn(ctx context.Context, c *cluster, d drain, partitions int) error {
	whose := "own files"
	if partitions != ownPartitions {
		whose = "shared files"
	}
	setup := fmt.Sprintf("%s, %d batches, %d partitions, %s", nodesText(len(c.nodes)), r.options.Scale.Drained, partitions, whose)
	r.step("%s: %s", d.work, setup)
	t, err := c.createTopic(ctx, partitions)
	if err != nil {
		return err
	}
	if err := c.load(ctx, t, r.options.Scale.Drained, loadPerFile); err != nil {
		return err
	}
	beside, err := c.createTopic(ctx, 100)
	if err != nil {
		return err
	}
	before, err := r.bareDrain(partitions)
	if err != nil {
		return err
	}
	run, err := r.drainBeside(ctx, c, d, t, beside)
	if err != nil {
		return err
	}
	after, err := r.bareDrain(partitions)
	if err != nil {
		return err
	}
	floor := join(before, after)
	line := r.add(d.work, setup, "batches/s", perSecond(run.calls, int(run.deleted)))
	line.against("bare bbolt deletes", Figures{Rate: 2 * float64(r.options.Scale.Drained) / floor.took.Seconds()})
	line.Note = fmt.Sprintf("%.3g s in %d calls, bare bbolt %.3g s", run.calls.took.Seconds(), len(run.calls.latencies), floor.took.Seconds()/2)
	if partitions == ownPartitions {
		factor := map[int]float64{1: 3, 3: 6}[len(c.nodes)]
		line.atMost(fmt.Sprintf("at most %gx the time of bare deletes", factor), 1/line.Floor.RateRatio, factor)
	}
	r.stallLine(d.work, run)
	return nil
}

// stallLine says what a client that committed beside noticed.
func (r *runner) stallLine(work string, run drainRun) {
	line := r.add(work, "  a commit beside it", "files/s", run.during.figures()).against("idle", run.idle.figures())
	line.atMost("p99 at most 2x idle", line.P99/line.Floor.P99, 2)
	bound := max(4*line.Floor.P999, microseconds(50*time.Millisecond))
	line.within(fmt.Sprintf("max at most %s", latency(bound)), line.Max, bound)
	if len(run.during.latencies) < 1000 {
		line.Note = fmt.Sprintf("%d commits during, %d idle: too few for a p99.9", len(run.during.latencies), len(run.idle.latencies))
	}
}

// bareDrain is the same rows removed from bbolt by durable transactions of as many.
func (r *runner) bareDrain(partitions int) (sample, error) {
	b, err := newBareRows(r.dir, partitions, r.options.Scale.Drained/partitions)
	if err != nil {
		return sample{}, err
	}
	began := time.Now()
	_, err = b.drain(int(ops.DefaultSettings().PurgeRows))
	s := sample{took: time.Since(began)}
	return s, errors.Join(err, b.remove())
}

// drainBeside drains t while one client commits to another topic.
func (r *runner) drainBeside(ctx context.Context, c *cluster, d drain, t, beside topic) (run drainRun, err error) {
	commit := newFiles(beside, 1, 10, false).commit(c.commitFile)
	if run.idle, err = measure(ctx, 1, r.options.Duration, commit); err != nil {
		return run, err
	}
	client := startClients(ctx, 1, commit)
	var calls []time.Duration
	began := time.Now()
	err = d.calls(ctx, c, t, func(fn func() (int64, error)) error {
		start := time.Now()
		deleted, err := fn()
		calls = append(calls, time.Since(start))
		run.deleted += deleted
		return err
	})
	took := time.Since(began)
	during, stopErr := client.stop()
	run.during = during
	run.calls = join(sample{took: took, latencies: calls})
	if err := errors.Join(err, stopErr); err != nil {
		return run, err
	}
	if run.deleted != int64(r.options.Scale.Drained) {
		return run, fmt.Errorf("%d batches removed of %d", run.deleted, r.options.Scale.Drained)
	}
	return run, nil
}

func deleteRequest(t topic) *ops.DeleteTopicsRequest {
	return &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{t.id}}
}

// purgeTopic deletes the topic and purges until nothing is left.
func purgeTopic(ctx context.Context, c *cluster, t topic, timed func(func() (int64, error)) error) error {
	if _, err := write[ops.DeleteTopicsResponse](ctx, c, deleteRequest(t)); err != nil {
		return err
	}
	more := true
	for more {
		err := timed(func() (int64, error) {
			answer, err := write[ops.PurgeDeletedLogsResponse](ctx, c, &ops.PurgeDeletedLogsRequest{MaxBatches: purgeCap})
			if err != nil {
				return 0, err
			}
			more = answer.MoreRemain
			return answer.BatchesDeleted, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// trimOnce removes up to trimCap batches of a partition.
type trimOnce func(ctx context.Context, c *cluster, t topic, partition int32) (deleted int64, more bool, err error)

// trimTopic calls once for each partition in turn until nothing is left of it.
func trimTopic(once trimOnce) func(context.Context, *cluster, topic, func(func() (int64, error)) error) error {
	return func(ctx context.Context, c *cluster, t topic, timed func(func() (int64, error)) error) error {
		for p := range t.partitions {
			more := true
			for more {
				err := timed(func() (deleted int64, err error) {
					deleted, more, err = once(ctx, c, t, int32(p))
					return deleted, err
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func pruneOnce(ctx context.Context, c *cluster, t topic, partition int32) (int64, bool, error) {
	answer, err := write[ops.PruneDisklessLogsResponse](ctx, c, &ops.PruneDisklessLogsRequest{MaxBatches: trimCap,
		Requests: []ops.PruneLog{{TopicID: t.id, Partition: partition, HighestRemoteOffset: math.MaxInt64 - 1}}})
	if err != nil {
		return 0, false, err
	}
	a := &answer.Responses[0]
	return itemResult(a.Error, a.BatchesDeleted, a.MoreRemain)
}

func retainOnce(ctx context.Context, c *cluster, t topic, partition int32) (int64, bool, error) {
	answer, err := write[ops.EnforceRetentionResponse](ctx, c, &ops.EnforceRetentionRequest{MaxBatchesPerRequest: trimCap,
		Requests: []ops.EnforceRetention{{TopicID: t.id, Partition: partition, RetentionBytes: 0, RetentionMs: -1}}})
	if err != nil {
		return 0, false, err
	}
	a := &answer.Responses[0]
	return itemResult(a.Error, a.BatchesDeleted, a.BatchesDeleted == trimCap)
}

func itemResult(code ops.Code, deleted int64, more bool) (int64, bool, error) {
	if code != ops.None {
		return 0, false, fmt.Errorf("item answered %s", code)
	}
	return deleted, more, nil
}
