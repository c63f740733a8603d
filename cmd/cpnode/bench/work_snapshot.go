package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// Snapshots are taken again and again, and the log is cut behind each of them.
const (
	snapshotInterval  = 100 * time.Millisecond // to twice as much
	snapshotThreshold = 1                      // entries
	snapshotTrailing  = 128                    // entries
)

const (
	snapshotStall  = 2.0 // p99 of commits over that without
	snapshotGrowth = 2.0 // time of one with all batches over that with few
)

// fewBatches are what the time of a snapshot is compared with.
func (r *runner) fewBatches() int { return max(100, r.options.Scale.Batches/100) }

// snapshot measures commits while snapshots are taken, against those without, and
// the time of taking one of a small state and of a large one, with few commits
// between two: what they change is synced too.
func (r *runner) snapshot(ctx context.Context) error {
	if !slices.Contains(r.options.Nodes, 3) {
		return nil
	}
	few, err := r.newStored(ctx, 3, r.fewBatches(), storedPartitions(r.fewBatches(), 1000))
	if err != nil {
		return err
	}
	r.step("snapshot: %d batches", few.batches)
	_, small, err := few.underSnapshots(ctx, 1, r.options.Duration, few.seldom)
	if err := errors.Join(err, few.remove()); err != nil {
		return err
	}
	many, err := r.many(ctx, 3)
	if err != nil {
		return err
	}
	r.step("snapshot: %d batches", many.batches)
	_, large, err := many.underSnapshots(ctx, 1, r.options.Duration, many.seldom)
	if err != nil {
		return err
	}
	line := r.add("snapshot", fmt.Sprintf("3 nodes, %d batches, time of one on average", many.batches), "ms", Figures{Rate: large.average()})
	line.against(fmt.Sprintf("%d batches", few.batches), Figures{Rate: small.average()})
	line.atMost("independent of size: at most 2x", line.Floor.RateRatio, snapshotGrowth)
	line.Note = fmt.Sprintf("%.0f snapshots of the large state, %.0f of the small one", large.count, small.count)
	for _, clients := range []int{1, manyClients} {
		if err := r.snapshotPoint(ctx, many, clients); err != nil {
			return err
		}
	}
	return nil
}

// seldom commits a file and pauses.
func (s *stored) seldom(ctx context.Context, r *ops.CommitFileRequest) (*ops.CommitFileResponse, error) {
	answer, err := s.commitFile(ctx, r)
	select {
	case <-time.After(snapshotInterval / 2):
	case <-ctx.Done():
	}
	return answer, err
}

// snapshotPoint measures commits under snapshots between two halves without.
func (r *runner) snapshotPoint(ctx context.Context, s *stored, clients int) error {
	setup := fmt.Sprintf("3 nodes, %s, %d batches, one after the other", clientsText(clients), s.batches)
	r.step("snapshot: %s", setup)
	d := r.options.Duration
	before, err := measure(ctx, clients, d/2, newFiles(s.topic, clients, storedPerFile, false).commit(s.commitFile))
	if err != nil {
		return err
	}
	during, taken, err := s.underSnapshots(ctx, clients, d, s.commitFile)
	if err != nil {
		return err
	}
	after, err := measure(ctx, clients, d/2, newFiles(s.topic, clients, storedPerFile, false).commit(s.commitFile))
	if err != nil {
		return err
	}
	line := r.add("snapshot", setup, "files/s", during.figures()).against("without", join(before, after).figures())
	line.atMost("p99 of commits at most 2x", line.P99/line.Floor.P99, snapshotStall)
	line.Note = fmt.Sprintf("%.0f snapshots", taken.count)
	return nil
}

// underSnapshots opens the cluster anew to take snapshots while clients commit
// through send, and as it was after that.
func (s *stored) underSnapshots(ctx context.Context, clients int, d time.Duration, send commitCall) (during sample, taken timings, err error) {
	was := slices.Clone(s.configs)
	if err := s.takeSnapshots(ctx); err != nil {
		return during, taken, err
	}
	commit := newFiles(s.topic, clients, storedPerFile, false).commit(send)
	for err == nil && taken.count == 0 { // more than once when points are very short
		if during, err = measure(ctx, clients, d, commit); err == nil {
			taken, err = s.timings(snapshotMetric)
		}
	}
	err = errors.Join(err, s.close())
	s.configs = was
	return during, taken, errors.Join(err, s.open(ctx))
}

// takeSnapshots opens the cluster anew, to take snapshots as fast as there is
// something for them.
func (c *cluster) takeSnapshots(ctx context.Context) error {
	if err := c.close(); err != nil {
		return err
	}
	c.configure(func(config *raftnode.Config) {
		config.SnapshotInterval, config.SnapshotThreshold, config.TrailingLogs = snapshotInterval, snapshotThreshold, snapshotTrailing
	})
	return c.open(ctx)
}

// Metrics of nodes that are read here.
const (
	snapshotMetric = "cpnode_snapshot_duration_seconds"
	restoreMetric  = "cpnode_restore_duration_seconds"
)

// timings are the number of some events and how long all of them took, in seconds.
type timings struct{ count, sum float64 }

// average is in milliseconds.
func (t timings) average() float64 { return 1000 * t.sum / max(1, t.count) }

// timings adds up a histogram of all nodes.
func (c *cluster) timings(metric string) (all timings, err error) {
	for i := range c.configs {
		families, err := c.configs[i].Registerer.(prometheus.Gatherer).Gather()
		if err != nil {
			return all, err
		}
		for _, f := range families {
			if f.GetName() == metric {
				h := f.GetMetric()[0].GetHistogram()
				all.count += float64(h.GetSampleCount())
				all.sum += h.GetSampleSum()
			}
		}
	}
	return all, nil
}
