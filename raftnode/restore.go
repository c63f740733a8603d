package raftnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// RestoreReport says what RestoreDir made.
type RestoreReport struct {
	NodeID       string `json:"node_id"`
	ClusterID    string `json:"cluster_id"` // a new one
	Index        uint64 `json:"index"`      // of the last log entry in the state
	Term         uint64 `json:"term"`
	Digest       string `json:"digest"`
	FeatureLevel uint64 `json:"feature_level"`
}

// RestoreDir makes the data directory of a cluster of one out of a backup: the node
// begins after the backup's index, under a cluster id and an instance that nobody
// has had, so that the nodes the backup is of take it for a stranger. The others
// then join with empty directories. The directory is made, or must be empty; after
// an error it is as it was. Errors: ErrNotEmpty when something is in it,
// ErrLocked; store.ErrStream or store.ErrSchema of a backup that cannot be used.
func RestoreDir(from io.Reader, dir string, self Peer) (r RestoreReport, err error) {
	if !validNodeID(self.ID) {
		return r, fmt.Errorf("%q is not a node id", self.ID)
	}
	if err := validAddr(self.Addr, false); err != nil {
		return r, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := mustBeEmpty(dir); err != nil {
		return r, err
	}
	if r, err = restoreInto(from, dir, self); err != nil {
		return r, errors.Join(err, empty(dir))
	}
	return r, nil
}

// restoreInto writes what makes a data directory, the identity last: without it
// nothing takes the directory for one.
func restoreInto(from io.Reader, dir string, self Peer) (r RestoreReport, err error) {
	id := identity{Format: identityFormat, NodeID: self.ID, Joined: true}
	if _, err := io.ReadFull(rand.Reader, id.Instance[:]); err != nil {
		return r, err
	}
	id.form([]member{{self, id.Instance}})
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: id.serverID(), Address: raft.ServerAddress(self.Addr)}}}
	m, err := restoreState(from, filepath.Join(dir, stateFile), id.Cluster, alone)
	if err != nil {
		return r, err
	}
	if err := beginLogAfter(filepath.Join(dir, logFile), m.AppliedTerm); err != nil {
		return r, err
	}
	return RestoreReport{
		NodeID: self.ID, ClusterID: id.Cluster.String(), Index: m.AppliedIndex, Term: m.AppliedTerm,
		Digest: m.Digest.String(), FeatureLevel: m.FeatureLevel,
	}, id.save(dir)
}

// restoreState installs the stream as another node's snapshot would be, with the cluster
// and the configuration as of its index.
func restoreState(from io.Reader, path string, cluster clusterID, members raft.Configuration) (m store.Meta, err error) {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	received, err := s.Receive()
	if err != nil {
		return m, err
	}
	defer received.Abort()
	if _, err := io.Copy(received, from); err != nil {
		return m, err
	}
	info, err := received.Finish()
	if err != nil {
		return m, err
	}
	if info.Index == 0 {
		return m, fmt.Errorf("%w: it is of a node that had nothing yet", store.ErrStream)
	}
	machine, err := fsm.New(s, fsm.Owner{Stopped: func(error) {}, NoSpace: func(error) bool { return false }})
	if err != nil {
		return m, err
	}
	at := fsm.Position{Index: info.Index, Term: info.Term, Configuration: members, ConfigurationIndex: info.Index}
	if err := machine.Restore(&fsm.Received{Receiver: received, At: at}); err != nil {
		return m, err
	}
	return m, s.Update(func(tx *store.WriteTx) error {
		tx.SetClusterID(cluster)
		m = tx.Meta()
		return ops.Supported(m.FeatureLevel)
	})
}

// beginLogAfter makes an empty raft log that promises not to vote in terms that the
// state has seen. Where its entries will be is up to the node.
func beginLogAfter(path string, term uint64) error {
	log, err := openLog(path, LogStoreBoltDB, nil, func(string, time.Duration) {})
	if err != nil {
		return err
	}
	return errors.Join(log.SetUint64(keyCurrentTerm, term), log.Close())
}

// mustBeEmpty refuses a directory that holds anything. A fresh file system has
// lost+found.
func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%w: %s holds %s; name an empty or a new directory", ErrNotEmpty, dir, e.Name())
		}
	}
	return nil
}

// empty removes what was put into a directory that was empty.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != "lost+found" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
