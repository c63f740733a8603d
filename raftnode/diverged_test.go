package raftnode

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// strayEntries are entries that were never committed.
func strayEntries(first, last, term uint64) (entries []*raft.Log) {
	for i := first; i <= last; i++ {
		entries = append(entries, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: []byte("never applied")})
	}
	return entries
}

// A leader that was cut off has entries which nobody else ever had, more of them than the
// others have committed since, and those have compacted their logs. It was sent one
// snapshot after another, for as long as nobody wrote.
func TestSnapshotBelowADivergedTail(t *testing.T) {
	c := startCluster(t, compacting)
	createTopic(t, c.nodes[c.leader()])
	c.settled()
	cut := c.leader()
	term, last := c.nodes[cut].raft.CurrentTerm(), c.nodes[cut].raft.LastIndex()
	c.crash(cut)
	log, err := openLog(filepath.Join(c.configs[cut].DataDir, logFile), testLogStore, &snapshotsAt{}, func(string, time.Duration) {})
	require.NoError(t, err)
	tail := last + 400
	require.NoError(t, log.StoreLogs(strayEntries(last+1, tail, term)))
	require.NoError(t, log.Close())

	leader := c.nodes[c.leader()]
	for i := range 100 {
		mustCommit(t, leader, fmt.Sprint(i), 0)
	}
	eventually(t, func() bool { return startedLate(t, leader) }, "the log is compacted")
	require.Less(t, leader.raft.LastIndex(), tail)
	ready(t, c.start(cut))
	mustCommit(t, c.nodes[c.leader()], "after", 0)
	require.Equal(t, 101, int(c.settled().Totals.Batches))
	require.Less(t, c.nodes[cut].raft.LastIndex(), tail, "its own entries are gone")
}
