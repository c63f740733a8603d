package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cpnode/cpnode/raftnode"
)

const catchUpStall = 3.0 // p99 of commits over that before

// catchUp wipes a follower of a cluster that holds many batches and whose log does
// not reach back, and measures commits while it is refilled.
func (r *runner) catchUp(ctx context.Context) error {
	if !slices.Contains(r.options.Nodes, 3) {
		return nil
	}
	s, err := r.many(ctx, 3)
	if err != nil {
		return err
	}
	for _, clients := range []int{1, manyClients} {
		// Snapshots cut the log, which from then on grows: it must reach back to the
		// state that is sent, when that is installed.
		if _, _, err := s.underSnapshots(ctx, manyClients, minDuration, s.commitFile); err != nil {
			return err
		}
		if err := r.catchUpUnder(ctx, s, clients); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) catchUpUnder(ctx context.Context, s *stored, clients int) error {
	setup := fmt.Sprintf("3 nodes, %s, %d batches, a wiped follower", clientsText(clients), s.batches)
	r.step("catch-up: %s", setup)
	commit := newFiles(s.topic, clients, storedPerFile, false).commit(s.commitFile)
	before, err := measure(ctx, clients, r.options.Duration, commit)
	if err != nil {
		return err
	}
	refill, err := s.refill(ctx, clients, commit)
	if err != nil {
		return err
	}
	copied, err := copyTime(refill.path, filepath.Join(r.dir, "copy"))
	if err != nil {
		return err
	}
	line := r.add("catch-up", setup, "files/s", refill.during.figures()).against("before", before.figures())
	line.atMost("p99 of commits at most 3x", line.P99/line.Floor.P99, catchUpStall)
	line.Note = fmt.Sprintf("%d commits during; the first byte after %.2f s, installed after %.2f s, a voter after %.2f s",
		len(refill.during.latencies), refill.begun.Seconds(), refill.installed.Seconds(), refill.votes.Seconds())
	line = r.add("catch-up", "  its transfer, checks included", "MB/s", Figures{Rate: megabytes(copied.bytes, refill.installed-refill.begun)})
	line.against("plain copy, synced", Figures{Rate: megabytes(copied.bytes, copied.took)})
	line.Note = fmt.Sprintf("%.1f MB", float64(copied.bytes)/1e6)
	return nil
}

func megabytes(bytes int64, took time.Duration) float64 { return float64(bytes) / 1e6 / took.Seconds() }

// refill is how a wiped follower came back, in times since it was started.
type refill struct {
	begun, installed, votes time.Duration
	during                  sample // commits from its first byte until it was ready
	path                    string // of its state file
}

// refill wipes a follower and waits until it votes again, while clients commit.
func (s *stored) refill(ctx context.Context, clients int, commit call) (f refill, err error) {
	i := slices.IndexFunc(s.nodes, func(n *raftnode.Node) bool { return n != s.leader })
	f.path = filepath.Join(s.configs[i].DataDir, "state.db")
	if err := s.nodes[i].Close(); err != nil {
		return f, err
	}
	if err := os.RemoveAll(s.configs[i].DataDir); err != nil {
		return f, err
	}
	ahead := startClients(ctx, clients, commit)
	began := time.Now()
	if s.nodes[i], err = raftnode.Open(s.configs[i]); err != nil {
		return f, errors.Join(err, stop(ahead))
	}
	node := s.nodes[i]
	err = poll(ctx, "the first byte of a state", func() bool {
		info, err := os.Stat(f.path + ".install") // which a small state has only for a moment
		return err == nil && info.Size() >= someBytes || node.Status().AppliedIndex > 0
	})
	f.begun = time.Since(began)
	if err := errors.Join(err, stop(ahead)); err != nil {
		return f, err
	}
	beside := startClients(ctx, clients, commit)
	err = poll(ctx, "the state", func() bool { return node.Status().AppliedIndex > 0 })
	f.installed = time.Since(began)
	if err == nil {
		err = poll(ctx, "what came after the state", func() bool { return node.Ready() == nil })
	}
	var stopped error
	f.during, stopped = beside.stop()
	if err := errors.Join(err, stopped); err != nil {
		return f, err
	}
	err = poll(ctx, "the follower's vote", func() bool { return s.voters(ctx) == len(s.nodes) })
	f.votes = time.Since(began)
	received, counted := s.timings(restoreMetric)
	if err := errors.Join(err, counted); err != nil {
		return f, err
	}
	if received.count == 0 {
		return f, errors.New("the follower was filled from the log, which reached back")
	}
	return f, nil
}

// someBytes of a state have come when there are as many: while a node starts, an
// empty one is there for a moment.
const someBytes = 256 << 10

func stop(c *clients) error {
	_, err := c.stop()
	return err
}

// voters is how many members vote; 0 while that is not known, or some do not.
func (c *cluster) voters(ctx context.Context) int {
	status, err := c.leader.Cluster(ctx)
	if err != nil || slices.ContainsFunc(status.Members, func(m raftnode.MemberStatus) bool { return m.Role != "voter" }) {
		return 0
	}
	return len(status.Members)
}

// copied is a copy of a file.
type copied struct {
	bytes int64
	took  time.Duration
}

// copyTime copies a file as anybody would, and syncs it.
func copyTime(from, to string) (c copied, err error) {
	source, err := os.Open(from)
	if err != nil {
		return c, err
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.Create(to)
	if err != nil {
		return c, err
	}
	began := time.Now()
	c.bytes, err = io.Copy(target, source)
	err = errors.Join(err, dataSync(target), target.Close())
	c.took = time.Since(began)
	return c, errors.Join(err, os.Remove(to))
}
