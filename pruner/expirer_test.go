package pruner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func expireConfig() Config {
	config := DefaultConfig()
	config.ExpireMaxRows = 2
	return config
}

// produce writes a batch of each of n producers.
func (c *cluster) produce(n int64) {
	c.t.Helper()
	for id := range n {
		c.commitBatch(ops.CommitBatch{TopicID: topicID(1), ProducerID: id, LastSequence: 9})
	}
}

func (c *cluster) producers() int {
	c.t.Helper()
	answer, err := c.GetProducerState(c.t.Context(), &ops.GetProducerStateRequest{Requests: []ops.LogRef{ref(1, 0)}})
	require.NoError(c.t, err)
	return len(answer.Responses[0].Entries)
}

func TestExpireProducers(t *testing.T) {
	c := newCluster(t)
	c.create(1, 1, nil)
	c.produce(5)
	c.clock.Advance(time.Hour)
	c.commitBatch(ops.CommitBatch{TopicID: topicID(1), ProducerID: 2, BaseSequence: 10, LastSequence: 19})
	e := NewProducerExpirer(c, expireConfig(), c.deps)

	c.clock.Advance(23 * time.Hour)
	last := c.lastIndex()
	totals, err := e.RunOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, totals)
	require.Equal(t, last, c.lastIndex(), "nothing is due, nothing proposed")

	c.clock.Advance(time.Millisecond)
	asked := c.called("expire-producers")
	totals, err = e.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ExpireTotals{Removed: 4}, totals)
	require.Equal(t, 2, c.producers(), "two entries of the producer that wrote since")
	require.Greater(t, c.called("expire-producers")-asked, 1, "a request removes two")
	require.Equal(t, 4.0, c.value("cpnode_expirer_removed_rows_total"))
}

func TestExpireProducersNever(t *testing.T) {
	c := newCluster(t)
	c.create(1, 1, nil)
	c.produce(1)
	c.clock.Advance(10_000 * time.Hour)
	config := expireConfig()
	config.ProducerExpiration = 0
	totals, err := NewProducerExpirer(c, config, c.deps).RunOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, totals)
	require.Equal(t, 1, c.producers())
}

func TestExpireFences(t *testing.T) {
	c := newCluster(t)
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		_, err := c.IsSafeToDeleteFile(t.Context(), &ops.IsSafeToDeleteFileRequest{ObjectKey: key, Fence: true})
		require.NoError(t, err)
	}
	e := NewFenceExpirer(c, expireConfig(), c.deps)
	c.clock.Advance(7*24*time.Hour - time.Millisecond)
	last := c.lastIndex()
	totals, err := e.RunOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, totals)
	require.Equal(t, last, c.lastIndex())

	c.clock.Advance(time.Millisecond)
	totals, err = e.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, ExpireTotals{Removed: 5}, totals)
}

// Run removes what is due and then waits its interval.
func TestExpireReplays(t *testing.T) {
	c := newCluster(t)
	c.create(1, 1, nil)
	c.commit(1, 0, 5)
	run(t, NewReplayExpirer(c, expireConfig(), c.deps))
	c.pass(1, 24*time.Hour)
	c.waiting(1)
	require.Zero(t, c.value("cpnode_expirer_removed_rows_total"))
	c.pass(1, time.Minute)
	c.waiting(1)
	require.Equal(t, 5.0, c.value("cpnode_expirer_removed_rows_total"))
}

// All three can have one registerer.
func TestExpirersRegisterTogether(t *testing.T) {
	c := newCluster(t)
	NewProducerExpirer(c, expireConfig(), c.deps)
	NewFenceExpirer(c, expireConfig(), c.deps)
	NewReplayExpirer(c, expireConfig(), c.deps)
	require.Zero(t, c.value("cpnode_expirer_cycles_total"))
}
