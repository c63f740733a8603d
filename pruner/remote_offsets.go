package pruner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cpnode/cpnode/ops"
)

// ErrTooManyPartitions: a report had partitions for which there is no room; the
// others were taken.
var ErrTooManyPartitions = errors.New("no room for more partitions")

// RemoteOffsets is a [Consolidation] that knows what it was told, in memory: brokers
// report again and again, and a new leader hears of every partition in time. It may
// be used from any goroutine.
type RemoteOffsets struct {
	mu      sync.Mutex
	highest map[ops.LogRef]int64
	limit   int
}

var _ Consolidation = (*RemoteOffsets)(nil)

// NewRemoteOffsets makes an empty table of at most limit partitions.
func NewRemoteOffsets(limit int) *RemoteOffsets {
	return &RemoteOffsets{highest: map[ops.LogRef]int64{}, limit: limit}
}

// Report takes the last offsets that tiered storage holds. Lower ones than those
// known, and negative ones (it holds nothing), change nothing. The error is
// ErrTooManyPartitions.
func (r *RemoteOffsets) Report(offsets []ops.PruneLog) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range offsets {
		ref := ops.LogRef{TopicID: o.TopicID, Partition: o.Partition}
		known, ok := r.highest[ref]
		switch {
		case o.HighestRemoteOffset < 0 || ok && o.HighestRemoteOffset <= known:
		case !ok && len(r.highest) >= r.limit:
			err = ErrTooManyPartitions
		default:
			r.highest[ref] = o.HighestRemoteOffset
		}
	}
	return err
}

// ConsolidationActiveFor is true for every partition that was reported.
func (r *RemoteOffsets) ConsolidationActiveFor(ref ops.LogRef) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.highest[ref]
	return ok
}

// HighestRemoteOffsets is everything that was reported, by topic id and partition.
func (r *RemoteOffsets) HighestRemoteOffsets(context.Context) ([]ops.PruneLog, error) {
	r.mu.Lock()
	all := make([]ops.PruneLog, 0, len(r.highest))
	for ref, offset := range r.highest {
		all = append(all, ops.PruneLog{TopicID: ref.TopicID, Partition: ref.Partition, HighestRemoteOffset: offset})
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b ops.PruneLog) int {
		return compareLogs(ops.LogRef{TopicID: a.TopicID, Partition: a.Partition}, ops.LogRef{TopicID: b.TopicID, Partition: b.Partition})
	})
	return all, nil
}

// Gone forgets a partition: its topic was deleted.
func (r *RemoteOffsets) Gone(ref ops.LogRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.highest, ref)
}

func compareLogs(a, b ops.LogRef) int {
	return cmp.Or(slices.Compare(a.TopicID[:], b.TopicID[:]), cmp.Compare(a.Partition, b.Partition))
}
