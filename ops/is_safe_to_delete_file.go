package ops

import (
	"math"

	"github.com/cpnode/cpnode/store"
)

// IsSafeToDeleteFileRequest asks whether an object that a broker uploaded may be
// deleted: whether no commit of it was applied.
type IsSafeToDeleteFileRequest struct {
	ObjectKey string `json:"object_key"`
	Fence     bool   `json:"fence" default:"false" doc:"When safe, also refuse a commit of the key that is still in flight."`
}

// IsSafeToDeleteFileResponse answers it. A key that is only fenced is safe.
type IsSafeToDeleteFileResponse struct {
	Safe bool `json:"safe"`
}

// Validate bounds the key.
func (r *IsSafeToDeleteFileRequest) Validate(lim Limits) error {
	return checkObjectKey("object_key", r.ObjectKey, lim)
}

// Begin logs an entry only for a fence.
func (r *IsSafeToDeleteFileRequest) Begin(s Settings) Steps {
	return &once[*IsSafeToDeleteFileResponse]{command: &fenceFile{key: r.ObjectKey, fence: r.Fence, fenceMs: s.ObjectFenceRetentionMs}}
}

// fenceFile is the logged command.
type fenceFile struct {
	key     string
	fence   bool // always true in the log: without it the answer is read
	fenceMs int64
}

func (*fenceFile) Op() string { return "is-safe-to-delete-file" }

func (c *fenceFile) fields(f *codec) {
	f.object(3, func(f *codec) {
		f.string(&c.key)
		f.bool(&c.fence)
		f.int64(&c.fenceMs)
	})
}

// Apply fences the key unless its file lives.
// deadline is ms, which are not negative, behind a clock, or the last time there is.
func deadline(nowMs, ms int64) int64 {
	if nowMs > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return nowMs + ms
}

func (c *fenceFile) Apply(tx *store.WriteTx, nowMs int64) (any, error) {
	return applyDecided(c, tx, nowMs)
}

func (c *fenceFile) decide(tx *store.ReadTx, nowMs int64) (change[*IsSafeToDeleteFileResponse], error) {
	_, exists, err := tx.FileByKey(c.key)
	unchanged := change[*IsSafeToDeleteFileResponse]{answer: &IsSafeToDeleteFileResponse{Safe: !exists}}
	if err != nil || exists || !c.fence {
		return unchanged, err
	}
	until, fenced, err := tx.Fence(c.key)
	if err != nil || fenced && until >= deadline(nowMs, c.fenceMs) {
		return unchanged, err
	}
	return change[*IsSafeToDeleteFileResponse]{unchanged.answer, func(tx *store.WriteTx) error {
		return tx.PutFence(c.key, deadline(nowMs, c.fenceMs))
	}}, nil
}
