package raftnode

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func topic(i byte) store.TopicID { return store.TopicID{14: 1, 15: i} }

func create(t *testing.T, n *Node, id byte, partitions int32) error {
	t.Helper()
	_, err := n.Propose(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topic(id), TopicName: fmt.Sprint("topic", id), NumPartitions: partitions}}})
	return err
}

func TestWritesAreRefusedWithoutSpace(t *testing.T) {
	var free atomic.Int64
	free.Store(1000)
	n := single(t, func(c *Config) { c.DiskMinFree, c.Surroundings.FreeBytes = 100, free.Load })
	mustCommit(t, n, "a", 0)
	free.Store(99)
	eventually(t, func() bool { return n.space.low() != "" }, "low")
	last := n.raft.LastIndex()
	_, err := commit(t.Context(), n, "b", 0)
	requireCode(t, err, ops.StorageFull)
	require.Equal(t, last, n.raft.LastIndex(), "nothing was proposed")
	r, err := commit(t.Context(), n, "a", 0)
	require.NoError(t, err, "what changes nothing takes no space")
	require.True(t, r.Answer.(*ops.CommitFileResponse).Replayed)
	require.NoError(t, n.Ready(), "it answers")
	s, err := n.Cluster(t.Context())
	require.NoError(t, err)
	require.Equal(t, "not fit to lead: space", s.Members[0].Problem)
	_, err = n.Propose(t.Context(), &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: testTopic, Partition: 0, Offset: -1}}})
	require.NoError(t, err)
	_, err = n.Propose(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{testTopic}})
	require.NoError(t, err)
	_, err = n.Propose(t.Context(), &ops.PurgeDeletedLogsRequest{MaxBatches: 10})
	require.NoError(t, err)

	free.Store(124) // not enough to end it
	eventually(t, func() bool {
		return strings.HasPrefix(n.space.low(), "124 bytes are free in the data directory, 125 must be")
	}, "says what is enough")
	require.Never(t, func() bool { return n.space.low() == "" }, 3*spaceInterval, 10*time.Millisecond)
	free.Store(125)
	eventually(t, func() bool { return create(t, n, 1, 1) == nil }, "clears by itself")
}

// What nodes and cleaners do goes on without space, what adds rows does not.
func TestWhatRunsWhenFull(t *testing.T) {
	runs := map[string]bool{}
	for _, op := range ops.All() {
		if op.IsWrite() {
			runs[op.Name] = op.RunsWhenFull
		}
	}
	require.Equal(t, map[string]bool{
		"delete-topics": true, "delete-files": true, "delete-records": true, "purge-deleted-logs": true, "prune-diskless-logs": true,
		"enforce-retention": true, "expire-producers": true, "expire-fences": true, "expire-replays": true,
		"create-topics": false, "commit-file": false, "is-safe-to-delete-file": false, "advance-cross-tier-log-start": false,
		"init-diskless-log": false, "repair-diskless-log": false,
		"broker-heartbeat": true, "fence-broker": true, "unfence-broker": true, "alter-partition": true, "elect-leader": true,
		"register-broker": false, "register-partitions": false, "begin-switch": false, "commit-seal": false,
		"commit-prefix-in-remote-storage": false, "override-switch": false,
	}, runs)
	for _, name := range []string{"checkpoint-digest", "raise-feature-level"} {
		op, ok := ops.Lookup(name)
		require.True(t, ok)
		require.True(t, op.RunsWhenFull, name)
	}
}

// The bound of the state file leaves room to delete, and what was deleted counts.
func TestStateFileIsNeverQuiteFull(t *testing.T) {
	n := single(t, func(c *Config) { c.StateMaxBytes = 64 << 20 })
	var err error
	made := byte(0)
	for ; made < 200 && err == nil; made++ {
		err = create(t, n, made, 2000)
	}
	requireCode(t, err, ops.StorageFull)
	require.NoError(t, n.Err())
	require.Greater(t, made, byte(5))
	for i := range made {
		_, err = n.Propose(t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topic(i)}})
		require.NoError(t, err)
		_, err = n.Propose(t.Context(), &ops.PurgeDeletedLogsRequest{MaxBatches: 1_000_000})
		require.NoError(t, err)
	}
	eventually(t, func() bool { return create(t, n, 250, 10) == nil }, "room again")
}
