package raftnode

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/fsm"
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

// A snapshot that is being sent when the node closes waits for the open transaction,
// and raft's end for the snapshot.
func TestOpenTransactionEndsWhileTheNodeCloses(t *testing.T) {
	n := openNode(t, testConfig(t, "n1"))
	ready(t, n)
	createTopic(t, n)
	mustCommit(t, n, "a", 0)
	entry := raft.Log{}
	require.NoError(t, n.log.GetLog(n.raft.LastIndex(), &entry))
	n.cancel()
	eventually(t, func() bool { return n.raft.State() == raft.Shutdown }, "raft ends")
	entry.Index++
	require.NoError(t, n.fsm.ApplyBatch([]*raft.Log{&entry})[0].(fsm.Result).Err)
	sent := make(chan error, 1)
	go func() {
		s, err := n.store.Snapshot()
		if err == nil {
			s.Release()
		}
		sent <- err
	}()
	eventually(t, func() bool { return len(sent) == 1 }, "the snapshot is there")
	require.NoError(t, <-sent)
}
