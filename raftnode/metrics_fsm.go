package raftnode

import (
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
)

// timedFSM measures the state machine, which itself knows no clock.
type timedFSM struct {
	*fsm.FSM
	node *Node
}

// ApplyBatch implements raft.BatchingFSM.
func (t *timedFSM) ApplyBatch(entries []*raft.Log) []any {
	if err := t.node.awaitState(); err != nil {
		// raft may bring more before it has ended, and the state may be there by then.
		t.End(entries[0].Index, err)
		answers := make([]any, len(entries))
		for i, entry := range entries {
			answers[i] = fsm.Result{Index: entry.Index, Err: err}
		}
		return answers
	}
	start := time.Now()
	answers := t.FSM.ApplyBatch(entries)
	t.node.metrics.applySeconds.Observe(time.Since(start).Seconds())
	t.node.metrics.batchEntries.Observe(float64(len(entries)))
	return answers
}

// Snapshot implements raft.FSM.
func (t *timedFSM) Snapshot() (raft.FSMSnapshot, error) {
	if err := t.node.stateHere(); err != nil {
		return nil, err
	}
	s, err := t.FSM.Snapshot()
	return timedSnapshot{s, t.node.metrics}, err
}

// Restore implements raft.FSM.
func (t *timedFSM) Restore(r io.ReadCloser) error {
	t.node.restoring.Lock()
	defer t.node.restoring.Unlock()
	start := time.Now()
	err := t.FSM.Restore(r)
	t.node.metrics.restoreTime.Observe(time.Since(start).Seconds())
	if err != nil {
		return err
	}
	return t.node.stateArrived()
}

type timedSnapshot struct {
	raft.FSMSnapshot
	metrics *metrics
}

// Persist implements raft.FSMSnapshot.
func (s timedSnapshot) Persist(sink raft.SnapshotSink) error {
	start := time.Now()
	err := s.FSMSnapshot.Persist(sink)
	s.metrics.persisted(start, time.Now(), err)
	return err
}

func (m *metrics) persisted(began, ended time.Time, err error) {
	if err != nil {
		m.persistFails.Inc()
		return
	}
	m.persistTime.Observe(ended.Sub(began).Seconds())
	m.persistedAt.Set(unixSeconds(ended))
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
