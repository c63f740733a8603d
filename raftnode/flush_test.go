package raftnode

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// What was answered is not at once in the state that readers see: whoever may not
// miss it must not.
func TestWhatWasAnsweredIsNotMissed(t *testing.T) {
	n := single(t, nil)
	for i := range 20 {
		id := store.TopicID{0: byte(i + 1), 15: 2}
		_, err := n.Propose(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: id, TopicName: fmt.Sprint("t", i), NumPartitions: 1}}})
		require.NoError(t, err)
		c := commitOf(fmt.Sprint("f", i), 0)
		c.Batches[0].TopicID = id
		r, err := n.Propose(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, ops.None, r.Answer.(*ops.CommitFileResponse).Batches[0].Error, "a commit right after its topic")

		info := func(tx *store.ReadTx) error {
			require.GreaterOrEqual(t, tx.Meta().AppliedIndex, r.Index)
			return nil
		}
		_, err = n.View(t.Context(), ReadOptions{Level: Stale, MinIndex: r.Index}, info)
		require.NoError(t, err)
		mustCommit(t, n, fmt.Sprint("g", i), 0)
		_, err = n.View(t.Context(), ReadOptions{}, info)
		require.NoError(t, err)

		stale := mustCommit(t, n, fmt.Sprint("h", i), 0)
		_, err = n.View(t.Context(), ReadOptions{Level: Stale}, func(tx *store.ReadTx) error {
			require.GreaterOrEqual(t, tx.Meta().AppliedIndex, stale.Index)
			return nil
		})
		require.NoError(t, err)
		_, err = n.Propose(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{id}})
		require.NoError(t, err)
		purge, err := n.Propose(t.Context(), &ops.PurgeDeletedLogsRequest{MaxBatches: 10})
		require.NoError(t, err)
		require.NotZero(t, purge.Index, "a purge right after the delete")
	}
}
