package remotestore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// View is what one broker knows of a store: the listing of each partition as of its last
// Refresh. Only Refresh and Read ask the store.
type View struct {
	store *Store

	mu      sync.RWMutex
	listed  map[ops.LogRef][]Segment
	copying bool
}

var _ switchover.RemoteLog = (*View)(nil)

// NewView knows of no segment yet.
func NewView(store *Store) *View {
	return &View{store: store, listed: map[ops.LogRef][]Segment{}, copying: true}
}

// Refresh lists a partition anew. After an error the view is as before.
func (v *View) Refresh(ctx context.Context, p ops.LogRef) error {
	segments, err := v.store.List(ctx, p)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed[p] = segments
	return nil
}

// Forget drops what is known of a partition that this broker has no more.
func (v *View) Forget(p ops.LogRef) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.listed, p)
}

// Segments are the listed segments of a partition, by base offset.
func (v *View) Segments(p ops.LogRef) []Segment {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Clone(v.listed[p])
}

// HighestOffset is the last offset that is listed without a gap from the first segment on,
// -1 if none is. What lies behind a gap does not count: it must not make anyone delete what
// the gap is missing.
func (v *View) HighestOffset(p ops.LogRef) int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	segments := v.listed[p]
	if len(segments) == 0 {
		return -1
	}
	end := segments[0].End
	for _, s := range segments[1:] {
		if s.Base > end {
			break
		}
		end = max(end, s.End)
	}
	return end - 1
}

// Copying says whether segments of the partition are being copied. It is so for all
// partitions or none.
func (v *View) Copying(ops.LogRef) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.copying
}

// SetCopying says what Copying answers; it is true at first.
func (v *View) SetCopying(copying bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.copying = copying
}

// Read returns batches from a listed segment that holds offset, as Store.Read does. If none
// does, the error is ErrNotListed.
func (v *View) Read(ctx context.Context, p ops.LogRef, offset int64, maxBytes int) ([]switchover.Batch, error) {
	segment, err := v.owner(p, offset)
	if err != nil {
		return nil, err
	}
	return v.store.Read(ctx, p, segment, offset, maxBytes)
}

// owner is the first listed segment that holds offset.
func (v *View) owner(p ops.LogRef, offset int64) (Segment, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, s := range v.listed[p] {
		if s.Base <= offset && offset < s.End {
			return s, nil
		}
	}
	return Segment{}, fmt.Errorf("%s: offset %d: %w", directory(p), offset, ErrNotListed)
}
