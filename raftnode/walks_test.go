package raftnode

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// A broker with thousands of partitions is fenced, and the leader is lost half-way: the
// next one finishes it.
func TestWalkOfALostLeaderIsFinished(t *testing.T) {
	const partitions = 5000
	c := startCluster(t, nil)
	old := c.leader()
	leader := c.nodes[old]
	for id := range int32(3) {
		_, err := leader.Propose(t.Context(), &ops.RegisterBrokerRequest{BrokerID: id, IncarnationID: "i", CleanShutdown: true})
		require.NoError(t, err)
		_, err = leader.Propose(t.Context(), &ops.UnfenceBrokerRequest{BrokerID: id})
		require.NoError(t, err)
	}
	register := &ops.RegisterPartitionsRequest{TopicID: topic(1), TopicName: "t"}
	for p := range int32(partitions) {
		register.Partitions = append(register.Partitions, ops.RegisterPartition{Partition: p, Replicas: []int32{0, 1, 2}})
	}
	_, err := leader.Propose(t.Context(), register)
	require.NoError(t, err)

	// The first entry alone reaches the log before the leader stops.
	steps := (&ops.FenceBrokerRequest{BrokerID: 0}).Begin(leader.config.Settings)
	var first ops.Command
	require.NoError(t, leader.view(func(tx *store.ReadTx) (err error) {
		first, err = steps.Next(tx, leader.clock())
		return err
	}))
	entry, err := ops.Encode(first, leader.clock())
	require.NoError(t, err)
	require.NoError(t, leader.apply(entry).err)
	c.stop(old)

	next := c.nodes[c.leader()]
	eventually(t, func() bool { return fencedEverywhere(t, next, topic(1), partitions) }, "the walk to end")
}

func fencedEverywhere(t *testing.T, n *Node, id store.TopicID, partitions int) bool {
	done := 0
	_, err := n.View(t.Context(), ReadOptions{}, func(tx *store.ReadTx) error {
		return tx.RegistrationsOfTopic(id, func(_ store.LogKey, r *store.Registration) (bool, error) {
			if r.Leader == 1 && r.LeaderEpoch == 1 && slices.Equal(r.ISR, []int32{1, 2}) {
				done++
			}
			return true, nil
		})
	})
	return err == nil && done == partitions
}
