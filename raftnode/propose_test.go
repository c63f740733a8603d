package raftnode

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func single(t *testing.T, change func(*Config)) *Node {
	t.Helper()
	c := testConfig(t, "n1")
	if change != nil {
		change(&c)
	}
	n := openNode(t, c)
	ready(t, n)
	createTopic(t, n)
	return n
}

func TestProposeNothingThatChangesNothing(t *testing.T) {
	n := single(t, nil)
	before := n.raft.LastIndex()
	r := createTopic(t, n)
	require.Zero(t, r.Index)
	require.Zero(t, r.Answer.(*ops.CreateTopicsResponse).Topics[0].PartitionsCreated)
	mustCommit(t, n, "a", 0)
	flushed(t, n)
	again, err := commit(t.Context(), n, "a", 0)
	require.NoError(t, err)
	require.True(t, again.Answer.(*ops.CommitFileResponse).Replayed)
	require.Zero(t, again.Index)
	_, err = commit(t.Context(), n, "a", 1)
	requireCode(t, err, ops.ObjectKeyConflict)
	require.Equal(t, before+1, n.raft.LastIndex())
}

func TestAnswerFromReadingIsConfirmed(t *testing.T) {
	var confirmed error
	n := single(t, func(c *Config) {
		c.confirm = func(context.Context, *Node, *leadership) error { return confirmed }
	})
	confirmed = ErrNotLeader
	_, err := n.Propose(t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: testTopic, TopicName: "t", NumPartitions: 4}}})
	require.ErrorIs(t, err, ErrNotLeader)
	mustCommit(t, n, "a", 0) // decided by its entry
}

func TestLongWriteIsSplit(t *testing.T) {
	n := single(t, func(c *Config) { c.Settings.DeleteRecordsRows = 2 })
	for i := range 9 {
		mustCommit(t, n, fmt.Sprint(i), 0)
	}
	before := n.raft.LastIndex()
	r, err := n.Propose(t.Context(), &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: testTopic, Partition: 0, Offset: -1}}})
	require.NoError(t, err)
	require.EqualValues(t, 90, r.Answer.(*ops.DeleteRecordsResponse).Responses[0].LogStartOffset)
	require.Greater(t, r.Index, before+3)
	require.Equal(t, n.raft.LastIndex(), r.Index)
}

func TestTooLargeEntryIsNotProposed(t *testing.T) {
	n := single(t, func(c *Config) { c.Settings.Limits.EntryBytes = 400 })
	before := n.raft.LastIndex()
	r := commitOf("a", 0)
	for range 30 {
		r.Batches = append(r.Batches, r.Batches[0])
	}
	_, err := n.Propose(t.Context(), r)
	requireCode(t, err, ops.RequestTooLarge)
	require.Equal(t, before, n.raft.LastIndex())
}

// start proposes a commit and returns its outcome, once it is in flight.
func start(t *testing.T, n *Node, ctx context.Context, key string, inFlight int) <-chan error {
	t.Helper()
	outcome := make(chan error, 1)
	go func() {
		_, err := commit(ctx, n, key, 0)
		outcome <- err
	}()
	eventually(t, func() bool {
		n.inFlight.mu.Lock()
		defer n.inFlight.mu.Unlock()
		return n.inFlight.entries == inFlight
	}, "%d in flight", inFlight)
	return outcome
}

func TestOverload(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"entries": func(c *Config) { c.MaxProposals = 3 },
		"bytes": func(c *Config) {
			c.Settings.Limits.EntryBytes, c.Settings.Limits.SealEntryBytes, c.MaxProposalBytes = 200, 200, 250
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := single(t, change)
			release := block(t, n)
			var outcomes []<-chan error
			for i := range 3 {
				outcomes = append(outcomes, start(t, n, t.Context(), fmt.Sprint(i), i+1))
			}
			last := n.raft.LastIndex()
			_, err := commit(t.Context(), n, "one too many", 0)
			requireCode(t, err, ops.Overloaded)
			require.LessOrEqual(t, n.raft.LastIndex(), last+3)
			release()
			for _, o := range outcomes {
				require.NoError(t, <-o)
			}
			mustCommit(t, n, "one too many", 0)
		})
	}
}

func TestUnknownOutcomeMayTakeEffect(t *testing.T) {
	n := single(t, func(c *Config) { c.OutcomeTimeout = 50 * time.Millisecond })
	release := block(t, n)
	_, err := commit(t.Context(), n, "late", 0)
	requireCode(t, err, ops.OutcomeUnknown)

	ctx, cancel := context.WithCancel(t.Context())
	abandoned := start(t, n, ctx, "abandoned", 2)
	cancel()
	requireCode(t, <-abandoned, ops.OutcomeUnknown)
	_, err = commit(ctx, n, "never", 0)
	require.ErrorIs(t, err, context.Canceled)

	release()
	eventually(t, func() bool {
		r, err := commit(t.Context(), n, "late", 0)
		return err == nil && r.Answer.(*ops.CommitFileResponse).Replayed
	}, "the late commit took effect")
	at, _, err := highWatermark(t.Context(), n, ReadOptions{}, 0)
	require.NoError(t, err)
	require.EqualValues(t, 20, at)
}

func TestCloseWaitsForWhatIsInFlight(t *testing.T) {
	n := single(t, nil)
	release := block(t, n)
	outcome := start(t, n, t.Context(), "a", 1)
	closed := make(chan error, 2)
	go func() { closed <- n.Close() }()
	eventually(t, func() bool { return n.closing.Load() }, "closing")
	_, err := commit(t.Context(), n, "b", 0)
	requireCode(t, err, ops.ShuttingDown)
	_, _, err = highWatermark(t.Context(), n, ReadOptions{Level: Stale}, 0)
	requireCode(t, err, ops.ShuttingDown)
	_, err = n.Forward(t.Context(), nil)
	requireCode(t, err, ops.ShuttingDown)
	require.Error(t, n.Ready())
	release()
	require.NoError(t, <-outcome)
	require.NoError(t, <-closed)
	require.NoError(t, n.Close())
	require.NoError(t, n.Err())
}
