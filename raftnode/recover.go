package raftnode

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/store"
)

// RecoverReport says what a directory holds, from which a cluster that has lost its
// majority is to go on, and what comes of it.
type RecoverReport struct {
	NodeID       string `json:"node_id"`
	ClusterID    string `json:"cluster_id"`
	LastIndex    uint64 `json:"last_index"` // of the log, the snapshot or the state
	LastTerm     uint64 `json:"last_term"`  // of the entry there
	CurrentTerm  uint64 `json:"current_term"`
	AppliedIndex uint64 `json:"applied_index"` // everything up to here was committed
	// SnapshotIndex is that of the newest snapshot, 0 when there is none.
	SnapshotIndex uint64 `json:"snapshot_index"`
	// Members is the latest configuration, committed or not.
	Members []RecoverMember `json:"members"`
	// Uncertain is how many entries after AppliedIndex may not have been committed;
	// recovering commits them. What the lost nodes committed after LastIndex is lost,
	// and nothing here can tell how much that is.
	Uncertain uint64 `json:"uncertain_entries"`
	// Removed says that the cluster went on without this directory: what it committed
	// since is not here.
	Removed bool `json:"removed,omitempty"`
	ahead   bool // of the log, the state, which then counts alone

	// NewInstance and NewClusterID are what the node goes on as; empty for a dry run.
	NewInstance  string `json:"new_instance,omitempty"`
	NewClusterID string `json:"new_cluster_id,omitempty"`
}

// RecoverMember is one line of a configuration.
type RecoverMember struct {
	ID       string `json:"id"`
	Instance string `json:"instance"` // 32 hexadecimal digits
	Addr     string `json:"addr"`     // empty while it was to replace another directory
	Voter    bool   `json:"voter"`
}

// RecoverDir makes the directory of a stopped node the whole of its cluster, for
// when the majority of the voters is lost for good; dryRun only reports. The node
// becomes the only voter, under a new instance and in a cluster with a new id: old
// members that come back after all are refused. The other peers become learners
// that are waited for: each is taken in when it starts with an empty directory.
// peers names this node too; empty is this node alone at the address it had. If it
// is interrupted it is to be run again, with peers: the node has left its cluster by
// then. Errors: ErrLocked while the node runs,
// ErrNotDataDir, ErrLogDamaged, ErrLogLost, store.ErrCorrupt, also of a state that is
// noted as bad, or about the peers.
func RecoverDir(ctx context.Context, child store.Child, dir string, peers []Peer, dryRun bool) (r RecoverReport, err error) {
	id, lock, err := lockStopped(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	switch {
	case !id.Joined:
		return r, fmt.Errorf("%w: %s was never part of a cluster; there is nothing to recover", ErrNotDataDir, dir)
	case id.Corrupt != "": // the next start would replace the state, and there would be nobody to fetch it from
		return r, fmt.Errorf("%w: the node was to replace its state, because: %s; if it is the one to go on from, see Divided cluster in docs/operating.md",
			store.ErrCorrupt, id.Corrupt)
	}
	if r, err = examine(ctx, child, dir, &id); err != nil || dryRun {
		return r, err
	}
	next, servers, err := recovered(&id, r.Members, peers)
	if err != nil {
		return r, err
	}
	// First: what follows commits what the old cluster may not have, so from here on
	// the directory must never take part in it again, whatever happens.
	if err := next.save(dir); err != nil {
		return r, err
	}
	if err := rewriteMembers(child, dir, &r, next.Cluster, servers); err != nil {
		return r, fmt.Errorf("the node has left its cluster and is not recovered yet; run it again, with peers: %w", err)
	}
	r.NewInstance, r.NewClusterID = next.Instance.String(), next.Cluster.String()
	return r, nil
}

// examine reads everything and changes nothing.
func examine(ctx context.Context, child store.Child, dir string, id *identity) (RecoverReport, error) {
	found, err := checkLocked(ctx, child, dir, id)
	if err != nil {
		return RecoverReport{}, err
	}
	r := RecoverReport{
		NodeID: id.NodeID, ClusterID: id.Cluster.String(), CurrentTerm: found.Log.CurrentTerm,
		AppliedIndex: found.State.AppliedIndex, SnapshotIndex: found.SnapshotIndex, Removed: id.Removed,
	}
	if err := found.Err(); err != nil {
		return r, err
	}
	at, err := recordedAt(dir, r.AppliedIndex)
	if err != nil {
		return r, err
	}
	servers, err := r.readLog(filepath.Join(dir, logFile), at, found.State.AppliedTerm)
	for _, s := range servers {
		r.Members = append(r.Members, RecoverMember{nameOf(s.ID), instanceOf(s.ID), addrOf(s), s.Suffrage == raft.Voter})
	}
	if r.LastIndex > r.AppliedIndex {
		r.Uncertain = r.LastIndex - r.AppliedIndex
	}
	return r, err
}

// recordedAt is the position of the newest record, the zero one when there is none.
func recordedAt(dir string, applied uint64) (fsm.Position, error) {
	record, ok, err := store.NewestRecord(filepath.Join(dir, stateFile), applied)
	if err != nil || !ok {
		return fsm.Position{}, err
	}
	return fsm.DecodePosition(record.Part)
}

// readLog notes where everything ends, and returns the configuration there. A state
// that came from another node can be further than the log, or the log hold in its
// place what was never committed: then nothing counts that comes after the snapshot.
func (r *RecoverReport) readLog(path string, at fsm.Position, appliedTerm uint64) (_ []raft.Server, err error) {
	log, err := readLog(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	servers := at.Configuration.Servers
	r.LastIndex, r.LastTerm, r.ahead = at.Index, at.Term, r.AppliedIndex > at.Index
	for i := max(first, at.Index+1); i <= last && first > 0; i++ {
		var entry raft.Log
		if err := log.GetLog(i, &entry); err != nil {
			return nil, err
		}
		if entry.Type == raft.LogConfiguration {
			servers = raft.DecodeConfiguration(entry.Data).Servers
		}
		r.LastIndex, r.LastTerm = i, entry.Term
		if i == r.AppliedIndex && entry.Term == appliedTerm {
			r.ahead = false
		}
	}
	if r.ahead {
		r.LastIndex, r.LastTerm, servers = r.AppliedIndex, appliedTerm, at.Configuration.Servers
	}
	return servers, nil
}

// recovered is what the node goes on as, and with whom.
func recovered(id *identity, members []RecoverMember, peers []Peer) (identity, []raft.Server, error) {
	next := *id
	next.Members, next.Removed = nil, false
	if _, err := io.ReadFull(rand.Reader, next.Instance[:]); err != nil {
		return next, nil, err
	}
	h := sha256.Sum256([]byte(id.Cluster.String() + "\n" + next.Instance.String() + "\n"))
	copy(next.Cluster[:], h[:])
	if len(peers) == 0 {
		for _, m := range members {
			if m.Instance == id.Instance.String() && m.Addr != "" {
				peers = []Peer{{ID: id.NodeID, Addr: m.Addr}}
			}
		}
	}
	config := Config{NodeID: id.NodeID, Peers: peers}
	if len(peers) == 0 {
		return next, nil, errors.New("peers: must be given: the node does not know where it was reached as a member")
	}
	if err := config.validatePeers(); err != nil {
		return next, nil, err
	}
	var servers []raft.Server
	for _, p := range peers {
		if p.ID == id.NodeID {
			servers = append(servers, raft.Server{Suffrage: raft.Voter, ID: next.serverID(), Address: raft.ServerAddress(p.Addr)})
		} else {
			servers = append(servers, raft.Server{Suffrage: raft.Nonvoter, ID: serverID(p.ID, instanceID{}), Address: raft.ServerAddress(p.Addr)})
		}
	}
	return next, servers, nil
}

// rewriteMembers applies the whole log to the state and makes a snapshot of it with
// other members, after which the log is empty. An entry that changes nothing makes the
// snapshot later than any before: an earlier one would stay.
func rewriteMembers(child store.Child, dir string, r *RecoverReport, cluster clusterID, servers []raft.Server) (err error) {
	config := DefaultConfig()
	config.NodeID, config.Child = nameOf(servers[0].ID), child
	state, err := store.Open(filepath.Join(dir, stateFile), config.stateOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	if err := state.Update(func(tx *store.WriteTx) error { tx.SetClusterID(cluster); return nil }); err != nil {
		return err
	}
	machine, err := fsm.New(state, fsm.Owner{Stopped: func(error) {}, NoSpace: func(error) bool { return false }})
	if err != nil {
		return err
	}
	snapshots := &snapshotStore{store: state, stream: machine.Stream}
	log, err := openLog(filepath.Join(dir, logFile), config.RaftLogStore, snapshots, func(string, time.Duration) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	raftConfig := config.RaftConfig()
	raftConfig.Logger = raftLogger(slog.New(slog.DiscardHandler))
	return r.goOn(raftConfig, machine, log, snapshots, raft.Configuration{Servers: servers})
}

func (r *RecoverReport) goOn(config *raft.Config, machine *fsm.FSM, log *logStore, snapshots *snapshotStore, members raft.Configuration) error {
	if r.ahead {
		if err := leaveLog(machine, log, snapshots, fsm.Position{Index: r.LastIndex, Term: r.LastTerm, Configuration: members, ConfigurationIndex: 1}); err != nil {
			return err
		}
	}
	mark := &raft.Log{Index: r.LastIndex + 1, Term: max(r.LastTerm, r.CurrentTerm), Type: raft.LogNoop}
	if err := errors.Join(log.SetUint64(keyCurrentTerm, mark.Term), log.StoreLog(mark)); err != nil {
		return err
	}
	err := raft.RecoverCluster(config, machine, log, log, snapshots, nil, members)
	if stopped := machine.Err(); stopped != nil { // raft takes no notice
		err = stopped
	}
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return machine.Sync()
}

// leaveLog empties the log, and then makes the state's own position that of its record:
// entries of the new cluster below it would be taken for applied. In the other order a
// crash between the two would leave entries that seem to come after the state.
func leaveLog(machine *fsm.FSM, log *logStore, snapshots *snapshotStore, at fsm.Position) error {
	first, err := log.FirstIndex()
	if err == nil && first > 0 {
		err = log.deleteNewest(first)
	}
	if err != nil {
		return err
	}
	sink, err := snapshots.Create(raft.SnapshotVersionMax, at.Index, at.Term, at.Configuration, at.ConfigurationIndex, nil)
	if err != nil {
		return err
	}
	state, err := machine.Snapshot()
	if err != nil {
		return err
	}
	defer state.Release()
	return state.Persist(sink)
}
