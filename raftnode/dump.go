package raftnode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// LogDump is the head of a recorded log.
type LogDump struct {
	NodeID     string `json:"node_id"`
	ClusterID  string `json:"cluster_id,omitempty"` // empty: no cluster was formed yet
	FirstIndex uint64 `json:"first_index"`          // 0 when the log is empty
	LastIndex  uint64 `json:"last_index"`
}

// LogEntry is one entry of a recorded log. Index, Term, Type and Data are what was
// logged, the rest says what that means.
type LogEntry struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Type  string `json:"type"`

	Op      string         `json:"op,omitempty"`
	NowMs   int64          `json:"now_ms,omitempty"`
	Request map[string]any `json:"request,omitempty"`
	Servers []LogServer    `json:"servers,omitempty"`
	Problem string         `json:"problem,omitempty"` // why this release cannot read it

	Data []byte `json:"data,omitempty"`
}

// LogServer is a member of the cluster as a configuration entry has it.
type LogServer struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Suffrage string `json:"suffrage"`
}

// logTypes are the names of the types of entries that a node writes.
var logTypes = map[raft.LogType]string{
	raft.LogCommand: "command", raft.LogNoop: "noop", raft.LogBarrier: "barrier", raft.LogConfiguration: "configuration",
}

// Entry is the entry as raft has it; the error says that its type is unknown.
func (e *LogEntry) Entry() (*raft.Log, error) {
	for logType, name := range logTypes {
		if name == e.Type {
			return &raft.Log{Index: e.Index, Term: e.Term, Type: logType, Data: e.Data}, nil
		}
	}
	return nil, fmt.Errorf("entry %d: there is no type %q", e.Index, e.Type)
}

func describeEntry(entry *raft.Log) LogEntry {
	e := LogEntry{Index: entry.Index, Term: entry.Term, Type: logTypes[entry.Type], Data: entry.Data}
	switch entry.Type {
	case raft.LogCommand:
		decoded, err := ops.Decode(entry.Data)
		if err != nil {
			e.Problem = err.Error()
			break
		}
		e.Op, e.NowMs, e.Request = decoded.Command.Op(), decoded.NowMs, ops.Describe(decoded.Command)
	case raft.LogConfiguration:
		for _, s := range raft.DecodeConfiguration(entry.Data).Servers {
			e.Servers = append(e.Servers, LogServer{string(s.ID), string(s.Address), s.Suffrage.String()})
		}
	case raft.LogNoop, raft.LogBarrier:
	default:
		e.Type = entry.Type.String()
	}
	return e
}

// DumpLog reads the raft log of a stopped node, one entry at a time, and changes
// nothing. A log that is damaged is refused with ErrLogDamaged. Other errors:
// ErrLocked while the node runs, ErrNotDataDir, ctx's, those of head and entry.
func DumpLog(ctx context.Context, child store.Child, dir string, head func(LogDump) error, entry func(LogEntry) error) (err error) {
	id, lock, err := lockStopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	path := filepath.Join(dir, logFile)
	found, err := CheckLogInChild(ctx, child, path)
	if err := errors.Join(err, found.Err()); err != nil {
		return err
	}
	dump := LogDump{NodeID: id.NodeID, FirstIndex: found.FirstIndex, LastIndex: found.LastIndex}
	if id.formed() {
		dump.ClusterID = id.Cluster.String()
	}
	if err := head(dump); err != nil || found.FirstIndex == 0 {
		return err
	}
	log, err := readLog(path)
	if err != nil {
		return err
	}
	return errors.Join(dumpEntries(ctx, log, dump, entry), log.Close())
}

func dumpEntries(ctx context.Context, log *logStore, dump LogDump, fn func(LogEntry) error) error {
	for i := dump.FirstIndex; i <= dump.LastIndex; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		var entry raft.Log
		if err := log.GetLog(i, &entry); err != nil {
			return err
		}
		if err := fn(describeEntry(&entry)); err != nil {
			return err
		}
	}
	return nil
}

// StateDump is the head of a dumped state.
type StateDump struct {
	NodeID    string `json:"node_id"`
	ClusterID string `json:"cluster_id,omitempty"` // empty: no cluster was formed yet

	SchemaVersion uint64       `json:"schema_version"`
	FeatureLevel  uint64       `json:"feature_level"`
	AppliedIndex  uint64       `json:"applied_index"`
	AppliedTerm   uint64       `json:"applied_term"`
	Digest        string       `json:"digest"`
	LastClockMs   int64        `json:"last_clock_ms"`
	LastFileID    uint64       `json:"last_file_id"`
	LastBatchID   uint64       `json:"last_batch_id"`
	LastLogID     uint64       `json:"last_log_id"`
	Totals        store.Totals `json:"totals"`
}

// DumpState reads the state of a stopped node, one row at a time, and changes
// nothing. A state that is damaged is refused with store.ErrCorrupt. Other errors:
// as DumpLog.
func DumpState(ctx context.Context, child store.Child, dir string, head func(StateDump) error, row func(store.Row) error) (err error) {
	id, lock, err := lockStopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	path := filepath.Join(dir, stateFile)
	found, err := child.Check(ctx, path)
	if err := errors.Join(err, found.Err()); err != nil {
		return err
	}
	return store.Dump(path, func(m store.Meta) error {
		dump := StateDump{
			NodeID: id.NodeID, SchemaVersion: m.SchemaVersion, FeatureLevel: m.FeatureLevel,
			AppliedIndex: m.AppliedIndex, AppliedTerm: m.AppliedTerm, Digest: m.Digest.String(), LastClockMs: m.LastClockMs,
			LastFileID: m.LastFileID, LastBatchID: m.LastBatchID, LastLogID: m.LastLogID, Totals: m.Totals,
		}
		if id.formed() {
			dump.ClusterID = id.Cluster.String()
		}
		return head(dump)
	}, func(r store.Row) error {
		return errors.Join(ctx.Err(), row(r))
	})
}
