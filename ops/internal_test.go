package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const internalTopic = "965eda32-dae4-4550-8201-e2bd73ab4876"

// level sets the feature level of the state, as an earlier release left it.
func (n *node) level(level uint64) {
	require.NoError(n.t, n.store.Update(func(tx *store.WriteTx) error {
		tx.SetFeatureLevel(level)
		return nil
	}))
}

// A checkpoint's digest is that of the state at its very entry, though rows of the
// entries before it are only staged, and it changes nothing but the index.
func TestCheckpointDigest(t *testing.T) {
	n, together := newNode(t, ops.DefaultSettings()), newNode(t, ops.DefaultSettings())
	_, code := n.do("create-topics", 2000, []byte(`{"topics": [{"topic_id": "`+internalTopic+`", "topic_name": "t", "num_partitions": 1}]}`))
	require.Empty(t, code)
	var want []store.Digest
	for i, key := range []string{"a", "b"} {
		_, code = n.do("commit-file", 3000, []byte(`{"object_key": "`+key+`", "uploader_broker_id": 1, "file_size": 1, "batches": [
			{"topic_id": "`+internalTopic+`", "partition": 0, "byte_offset": 0, "byte_size": 1, "base_offset": 0, "last_offset": 0, "batch_max_timestamp": 1}]}`))
		require.Empty(t, code)
		before := n.meta()
		answer, err := n.run(&ops.CheckpointDigest{}, 9000)
		require.NoError(t, err)
		require.Equal(t, ops.Checkpoint{Digest: n.recount()}, answer)
		want = append(want, answer.(ops.Checkpoint).Digest)
		before.AppliedIndex++
		require.Equal(t, before, n.meta(), "checkpoint %d", i)
	}
	require.NotEqual(t, want[0], want[1])

	results, err := together.apply(n.log...)
	require.NoError(t, err)
	require.Equal(t, []any{ops.Checkpoint{Digest: want[0]}, ops.Checkpoint{Digest: want[1]}}, []any{results[2], results[4]})
	require.Equal(t, n.meta(), together.meta())
}

// recount is the digest of all rows.
func (n *node) recount() (d store.Digest) {
	require.NoError(n.t, n.store.View(func(tx *store.ReadTx) (err error) {
		d, err = store.DigestOf(tx)
		return err
	}))
	return d
}

func TestRaiseFeatureLevel(t *testing.T) {
	n := newNode(t, ops.DefaultSettings())
	n.level(0)
	answer, err := n.run(&ops.RaiseFeatureLevel{Level: 1}, 5000)
	require.NoError(t, err)
	require.Equal(t, ops.FeatureLevelRaised{From: 0, To: 1}, answer)
	require.EqualValues(t, 1, n.meta().FeatureLevel)
	require.EqualValues(t, 5000, n.meta().LastClockMs)

	for _, level := range []uint64{1, 0} { // it never goes back, and asking again logs nothing
		answer, err = n.run(&ops.RaiseFeatureLevel{Level: level}, 6000)
		require.NoError(t, err)
		require.Equal(t, ops.FeatureLevelRaised{From: 1, To: 1}, answer)
		require.True(t, n.fromRead)
	}
	require.Len(t, n.log, 1)
	_, err = n.apply(n.log[0])
	require.NoError(t, err)
	require.EqualValues(t, 5000, n.meta().LastClockMs)

	_, err = n.run(&ops.RaiseFeatureLevel{Level: ops.FeatureLevel + 1}, 7000)
	require.ErrorIs(t, err, &ops.Error{Code: ops.UnsupportedFeatureLevel})
}

func TestInternalOperationsAreNoClientsBusiness(t *testing.T) {
	for _, op := range ops.All() {
		require.False(t, op.IsInternal(), op.Name)
	}
	for _, name := range []string{"checkpoint-digest", "raise-feature-level", "set-event-history"} {
		op, ok := ops.Lookup(name)
		require.True(t, ok)
		require.True(t, op.IsInternal() && op.IsWrite())
	}
}
