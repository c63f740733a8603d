package ops

import "github.com/cpnode/cpnode/store"

// CheckpointDigest makes every node note the digest of its state at one and the
// same log entry, so that they can be compared. Only nodes propose it. Its answer
// is a Checkpoint.
type CheckpointDigest struct{}

// Checkpoint is the digest of the state at the entry that it is the result of.
type Checkpoint struct{ Digest store.Digest }

// Validate has nothing to check.
func (*CheckpointDigest) Validate(Limits) error { return nil }

// Begin logs one entry, though it changes nothing: what counts is its place.
func (*CheckpointDigest) Begin(Settings) Steps { return &checkpointSteps{} }

type checkpointSteps struct{ answer any }

func (*checkpointSteps) Next(*store.ReadTx, int64) (Command, error) { return &checkpointDigest{}, nil }

func (s *checkpointSteps) Took(result any) bool {
	s.answer = result
	return true
}

func (s *checkpointSteps) Answer() any { return s.answer }

// checkpointDigest is the logged command.
type checkpointDigest struct{}

func (*checkpointDigest) Op() string { return "checkpoint-digest" }

func (*checkpointDigest) fields(f *codec) { f.object(0, func(*codec) {}) }

// Apply changes no row. What earlier entries of the transaction have staged is
// written first, which the digest counts; that is bounded by them.
func (*checkpointDigest) Apply(tx *store.WriteTx, _ int64) (any, error) {
	digest, err := tx.Digest()
	return Checkpoint{digest}, err
}
