package raftnode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestSingleNodeIsReadyAtOnce(t *testing.T) {
	config := testConfig(t, "n1")
	neverElects(&config)
	n := openNode(t, config)
	ready(t, n)

	// All that is committed are entries of raft's own and the level that the cluster begins at.
	_, info, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 4, info.AppliedIndex)
	require.EqualValues(t, ops.FeatureLevel, n.FeatureLevel())
	created := createTopic(t, n)
	require.Positive(t, created.Index)
	first := mustCommit(t, n, "a", 0)
	second := mustCommit(t, n, "b", 0)
	require.EqualValues(t, 0, first.Answer.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset)
	require.EqualValues(t, 10, second.Answer.(*ops.CommitFileResponse).Batches[0].AssignedBaseOffset)
	require.Greater(t, second.Index, first.Index)

	for _, level := range []Level{Linearizable, Stale} {
		at, info, err := highWatermark(t.Context(), n, ReadOptions{Level: level, MinIndex: second.Index}, 0)
		require.NoError(t, err)
		require.EqualValues(t, 20, at)
		require.Equal(t, ReadInfo{AppliedIndex: second.Index}, info)
	}
}

func TestClusterFormsInAnyOrderOfStarting(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, steady)
			c.start(order[0])
			c.start(order[1])
			eventually(t, func() bool {
				err := c.nodes[order[0]].Ready()
				return err != nil && strings.Contains(err.Error(), c.configs[order[2]].NodeID+": ")
			}, "the first says for whom it waits")
			require.Nil(t, c.nodes[order[0]].leading())
			c.start(order[2])
			for _, n := range c.nodes {
				ready(t, n)
			}
			require.Equal(t, c.nodes[0].Status().ClusterID, c.nodes[1].Status().ClusterID)
			require.Equal(t, c.nodes[0].Status().ClusterID, c.nodes[2].Status().ClusterID)
			require.Len(t, c.nodes[0].Status().Peers, 3)
			createTopic(t, c.nodes[c.leader()])
		})
	}
}

func TestFollowersHoldTheSameState(t *testing.T) {
	c := startCluster(t, nil)
	leader := c.nodes[c.leader()]
	createTopic(t, leader)
	var last Result
	for i := range 50 {
		last = mustCommit(t, leader, fmt.Sprintf("f%d", i), int32(i%4))
	}
	for _, n := range c.nodes {
		at, info, err := highWatermark(t.Context(), n, ReadOptions{Level: Stale, MinIndex: last.Index}, 1)
		require.NoError(t, err)
		require.EqualValues(t, 130, at)
		require.Equal(t, last.Index, info.AppliedIndex)
		require.Equal(t, meta(t, leader).Digest, meta(t, n).Digest)
	}
	_, err := commit(t.Context(), c.nodes[c.followers()[0]], "x", 0)
	require.ErrorIs(t, err, ErrNotLeader)
	_, _, err = highWatermark(t.Context(), c.nodes[c.followers()[0]], ReadOptions{}, 0)
	require.ErrorIs(t, err, ErrNotLeader)
}
