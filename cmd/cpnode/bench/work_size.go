package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

const (
	liveBytesTarget  = 130      // a batch, at 1,000 partitions
	liveBytesSpread  = 200      // a batch, at 10,000 partitions
	churnTarget      = 2.5      // file size over live bytes
	churnFloor       = 64 << 20 // below it the 16 MiB steps in which a file grows are what counts
	memoryTargetMiB  = 150
	spreadPartitions = 10_000
)

// size measures the state file and the memory of a node that holds many batches.
func (r *runner) size(ctx context.Context) error {
	s, err := r.many(ctx, 1)
	if err != nil {
		return err
	}
	if err := r.freshSize(ctx, s, liveBytesTarget); err != nil {
		return err
	}
	if err := r.memory(ctx, s); err != nil {
		return err
	}
	if err := r.churn(ctx, s); err != nil {
		return err
	}
	partitions := storedPartitions(s.batches, spreadPartitions)
	if partitions == s.topic.partitions {
		return nil
	}
	r.step("size: load %d batches into %d partitions", s.batches, partitions)
	spread, err := r.newStored(ctx, 1, s.batches, partitions)
	if err != nil {
		return err
	}
	return errors.Join(r.freshSize(ctx, spread, liveBytesSpread), spread.remove())
}

// fileSize is what a state file takes, in bytes.
type fileSize struct{ file, live float64 }

func (f fileSize) String() string {
	return fmt.Sprintf("file %.1f MiB, live %.1f MiB", f.file/(1<<20), f.live/(1<<20))
}

// measureFile closes the cluster, to look at its first state file, and opens it
// again.
func (s *stored) measureFile(ctx context.Context) (fileSize, error) {
	if err := s.close(); err != nil {
		return fileSize{}, err
	}
	size, err := sizeOf(filepath.Join(s.configs[0].DataDir, "state.db"))
	return size, errors.Join(err, s.open(ctx))
}

// sizeOf counts as live what pages are in use: the file grows in steps, beyond
// the last page, and keeps pages that were freed.
func sizeOf(path string) (size fileSize, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return size, err
	}
	db, err := bbolt.Open(path, 0o600, bareOptions())
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		stats := db.Stats()
		free := int64(stats.FreePageN+stats.PendingPageN) * int64(db.Info().PageSize)
		size = fileSize{file: float64(info.Size()), live: float64(tx.Size() - free)}
		return nil
	})
	return size, err
}

func (r *runner) freshSize(ctx context.Context, s *stored, target float64) error {
	r.step("size: %d partitions", s.topic.partitions)
	size, err := s.measureFile(ctx)
	if err != nil {
		return err
	}
	live := size.live / float64(s.batches)
	line := r.add("size", fmt.Sprintf("live, %d batches, 10 a file, %d partitions", s.batches, s.topic.partitions), "bytes/batch", Figures{Rate: live})
	line.atMost(fmt.Sprintf("at most %g", target), live, target)
	line.Note = size.String()
	return nil
}

// memory is what the process holds beyond page cache after the node was opened
// anew and has served fetches and commits for a while.
func (r *runner) memory(ctx context.Context, s *stored) error {
	if err := s.close(); err != nil {
		return err
	}
	debug.FreeOSMemory()
	if err := s.open(ctx); err != nil {
		return err
	}
	if _, err := measure(ctx, 1, r.options.Duration, s.find(s.findBatches(raftnode.Stale))); err != nil {
		return err
	}
	commits := newFiles(s.topic, 8, storedPerFile, false)
	made, err := measure(ctx, 8, r.options.Duration, commits.commit(s.commitFile))
	if err != nil {
		return err
	}
	bytes, ok := anonymousBytes()
	if !ok {
		return nil
	}
	mib := float64(bytes) / (1 << 20)
	line := r.add("size", fmt.Sprintf("resident memory beyond page cache, 1 node, %d batches", s.batches), "MiB", Figures{Rate: mib})
	line.atMost("at most 150 MiB", mib, memoryTargetMiB)
	line.Note = fmt.Sprintf("the whole process, clients included, after %d commits", len(made.latencies))
	return nil
}

// churn prunes the older half of every partition, forgets the files, and loads
// as many batches again.
func (r *runner) churn(ctx context.Context, s *stored) error {
	r.step("size: churn")
	if err := s.readEnds(ctx); err != nil {
		return err
	}
	deleted := int64(0)
	for p, end := range s.ends {
		answer, err := write[ops.PruneDisklessLogsResponse](ctx, s.cluster, &ops.PruneDisklessLogsRequest{
			Requests: []ops.PruneLog{{TopicID: s.topic.id, Partition: int32(p), HighestRemoteOffset: end / 2}}})
		if err != nil {
			return err
		}
		deleted += max(0, answer.Responses[0].BatchesDeleted)
	}
	if err := s.forgetFiles(ctx); err != nil {
		return err
	}
	if err := s.load(ctx, s.topic, int(deleted), storedPerFile); err != nil {
		return err
	}
	size, err := s.measureFile(ctx)
	if err != nil {
		return err
	}
	ratio := size.file / size.live
	line := r.add("size", fmt.Sprintf("file over live after churn of %d batches", deleted), "x", Figures{Rate: ratio})
	if size.file > churnFloor {
		line.atMost("at most 2.5", ratio, churnTarget)
	}
	line.Note = size.String()
	return nil
}

const forgetStep = 1000

// forgetFiles takes the files that hold nothing any more out of the state, as the
// file cleaner does.
func (c *cluster) forgetFiles(ctx context.Context) error {
	for {
		gone, err := read[ops.GetFilesToDeleteResponse](ctx, c, raftnode.Linearizable,
			&ops.GetFilesToDeleteRequest{MarkedBefore: math.MaxInt64, Limit: forgetStep})
		if err != nil || len(gone.Files) == 0 {
			return err
		}
		keys := make([]string, len(gone.Files))
		for i := range gone.Files {
			keys[i] = gone.Files[i].ObjectKey
		}
		if _, err := write[ops.DeleteFilesResponse](ctx, c, &ops.DeleteFilesRequest{ObjectKeys: keys}); err != nil {
			return err
		}
	}
}
