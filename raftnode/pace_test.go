package raftnode

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestPacerLeavesAsMuchTimeAsADrainTakes(t *testing.T) {
	var p pacer
	began := time.Now()
	require.Zero(t, p.pause(began, 0), "nothing was proposed")
	require.Zero(t, p.pause(began, 9), "no drain was")
	ended := began.Add(3 * time.Millisecond)
	p.answered(9, began, ended)
	require.Zero(t, p.pause(ended, 9), "nobody else writes")
	require.Equal(t, 3*time.Millisecond, p.pause(ended, 10))
	require.Equal(t, time.Millisecond, p.pause(ended.Add(2*time.Millisecond), 10), "less what has passed")
	require.Zero(t, p.pause(ended.Add(time.Second), 10))
	p.answered(11, began, began.Add(time.Hour))
	require.Equal(t, longestPause, p.pause(began.Add(time.Hour), 12), "bounded")
}

// The entries of background work, and all but the first of a long write, give way.
func TestDrainsGiveWay(t *testing.T) {
	n := single(t, func(c *Config) { c.Settings.PruneRows, c.Settings.DeleteRecordsRows = 2, 2 })
	for i := range 6 {
		mustCommit(t, n, fmt.Sprint(i), 0)
	}
	numbers := func() (drain, latest uint64) { return n.pacer.number, n.inFlight.latest() }
	drain, _ := numbers()
	require.Zero(t, drain, "a commit is no drain")
	for _, w := range []ops.Write{
		&ops.PruneDisklessLogsRequest{Requests: []ops.PruneLog{{TopicID: testTopic, HighestRemoteOffset: 15}}},
		&ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: testTopic, Offset: -1}}},
	} {
		_, err := n.Propose(t.Context(), w)
		require.NoError(t, err)
		drain, latest := numbers()
		require.Equal(t, latest, drain, "%T", w)
	}
	n.pacer.took, n.pacer.ended = time.Hour, time.Now()
	mustCommit(t, n, "other", 1)
	mustCommit(t, n, "another", 2)
	n.pacer.ended = time.Now()
	began := time.Now()
	_, err := n.Propose(t.Context(), &ops.PruneDisklessLogsRequest{Requests: []ops.PruneLog{{TopicID: testTopic, Partition: 1, HighestRemoteOffset: 9}}})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), longestPause)
}
