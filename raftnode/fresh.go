package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// freshness knows since when this node's state holds all that its leader had
// reported committed.
type freshness struct {
	applied func(commit uint64) bool // whether the state holds everything up to commit

	mu      sync.Mutex
	at      time.Time // the state is as new as the leader's was at this time
	pending report    // the oldest report that the state had not reached
	latest  uint64    // the highest commit index that was reported
}

// report is a commit index that a leader sent, and when it came.
type report struct {
	commit uint64
	at     time.Time
}

// observe takes a message on its way to raft. Heartbeats carry no commit index:
// they say that a leader lives, not what it has committed.
func (f *freshness) observe(rpc *raft.RPC, term uint64) {
	m, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || m.Term < term || m.LeaderCommitIndex == 0 {
		return
	}
	f.reported(m.LeaderCommitIndex)
}

// reported notes what is committed at this moment, and says whether the state holds
// it. A leader reports to itself.
func (f *freshness) reported(commit uint64) (holds bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.latest = max(f.latest, commit)
	f.settle()
	if holds = f.applied(commit); holds {
		f.at = now
	} else if f.pending.commit == 0 {
		f.pending = report{commit: commit, at: now}
	}
	return holds
}

// committed is the highest commit index that a leader reported. What raft itself knows to
// be committed on a follower ends with its log.
func (f *freshness) committed() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// settle looks whether the state has reached the pending report.
func (f *freshness) settle() {
	if f.pending.commit != 0 && f.applied(f.pending.commit) {
		f.at, f.pending = f.pending.at, report{}
	}
}

// staleness is how old the state is at most; Unknown before any leader reported.
func (f *freshness) staleness() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle()
	if f.at.IsZero() {
		return Unknown
	}
	return time.Since(f.at)
}
