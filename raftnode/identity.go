package raftnode

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/raft"
)

// Errors of a data directory that this node must not use.
var (
	// ErrNotDataDir: the directory holds something else.
	ErrNotDataDir = errors.New("not a cpnode data directory")
	// ErrNotEmpty: something is in a directory that is to be made anew.
	ErrNotEmpty = errors.New("directory is not empty")
	// ErrOtherNode: the directory belongs to a node of another name.
	ErrOtherNode = errors.New("data directory of another node")
	// ErrOtherCluster: the directory holds the state of another cluster than its own.
	ErrOtherCluster = errors.New("state of another cluster")
	// ErrLocked: another process has the directory open.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrLogLost: the directory's raft log does not belong to its state, or is gone.
	ErrLogLost = errors.New("raft log is lost")
	// ErrNewerRelease: the directory was written by a release that knows more.
	ErrNewerRelease = errors.New("written by a newer release")
)

// instanceID names one data directory for ever. A node that comes back with
// another one has lost its log, and what it promised in it.
type instanceID [16]byte

// clusterID names a cluster: the hash of the members it was formed from, or of
// what it was recovered from. Zero is that of a node that belongs to none yet.
type clusterID [16]byte

func (id instanceID) String() string { return hex.EncodeToString(id[:]) }
func (id clusterID) String() string  { return hex.EncodeToString(id[:]) }

// MarshalText writes hexadecimal digits.
func (id instanceID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// MarshalText writes hexadecimal digits.
func (id clusterID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (id *instanceID) UnmarshalText(text []byte) error { return unhex(id[:], text) }

// UnmarshalText reads what MarshalText writes.
func (id *clusterID) UnmarshalText(text []byte) error { return unhex(id[:], text) }

func unhex(to, text []byte) error {
	if hex.DecodedLen(len(text)) != len(to) {
		return fmt.Errorf("%q is not %d hexadecimal digits", text, 2*len(to))
	}
	_, err := hex.Decode(to, text)
	return err
}

// member is a peer and the data directory it had when the cluster was formed.
type member struct {
	Peer
	Instance instanceID `json:"instance"`
}

// identity is what the file node.json holds. It is written before anything it
// says is acted upon:
//
//	new directory    instance
//	cluster formed   cluster, members: decided, the same on every member
//	cluster adopted  cluster: this node was added to one that others formed
//	log begun        joined: the log exists, and must exist ever after
//	removed          removed: the cluster goes on without this directory
//	corrupt          corrupt: why the state must not be used
type identity struct {
	Format   int        `json:"format"`
	NodeID   string     `json:"node_id"`
	Instance instanceID `json:"instance"`
	Cluster  clusterID  `json:"cluster"`
	Members  []member   `json:"members,omitempty"`
	Joined   bool       `json:"joined"`
	Removed  bool       `json:"removed,omitempty"`
	Corrupt  string     `json:"corrupt,omitempty"`
	// Replacing goes with Corrupt, from the next start on.
	Replacing *replacement `json:"replacing,omitempty"`
}

// identityFormat 2 goes with raft server ids that hold the instance.
const (
	identityFormat = 2
	identityFile   = "node.json"
	stateFile      = "state.db"
	recordsFile    = "state.sync" // where the store keeps the records of the state
	logFile        = "raft.db"
)

func (id *identity) formed() bool { return id.Cluster != clusterID{} }

func (id *identity) serverID() raft.ServerID { return serverID(id.NodeID, id.Instance) }

// form fixes the members, in order of their ids, and with them the cluster's id.
func (id *identity) form(members []member) {
	members = slices.SortedFunc(slices.Values(members), func(a, b member) int { return strings.Compare(a.ID, b.ID) })
	h := sha256.New()
	for _, m := range members {
		fmt.Fprintf(h, "%s=%s %s\n", m.ID, m.Addr, m.Instance)
	}
	id.Members = members
	copy(id.Cluster[:], h.Sum(nil))
}

// loadIdentity reads the identity of a locked data directory, or makes one for a
// directory that is empty.
func loadIdentity(dir, nodeID string) (identity, error) {
	id, err := readIdentity(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newIdentity(dir, nodeID)
	case err != nil:
		return id, err
	case id.NodeID != nodeID:
		return id, fmt.Errorf("%w: %s belongs to %s, not to %s; give each node its own directory", ErrOtherNode, dir, id.NodeID, nodeID)
	}
	return id, nil
}

// readIdentity wraps fs.ErrNotExist when the directory has none.
func readIdentity(dir string) (id identity, err error) {
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return id, err
	}
	err = json.Unmarshal(data, &id)
	switch {
	case err == nil && id.Format > identityFormat:
		return id, fmt.Errorf("%w: %s has format %d, this release reads %d", ErrNewerRelease, path, id.Format, identityFormat)
	case err != nil || id.Format != identityFormat:
		return id, fmt.Errorf("%w: %s does not hold format %d; restore it or begin with an empty directory", ErrNotDataDir, path, identityFormat)
	}
	return id, nil
}

func newIdentity(dir, nodeID string) (identity, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return identity{}, err
	}
	for _, e := range entries {
		// A fresh file system holds lost+found; a crash can leave the temporary file.
		if e.Name() != "lost+found" && e.Name() != identityFile+".tmp" {
			return identity{}, fmt.Errorf("%w: %s holds %s and no %s; name an empty or a new directory", ErrNotDataDir, dir, e.Name(), identityFile)
		}
	}
	id := identity{Format: identityFormat, NodeID: nodeID}
	if _, err := io.ReadFull(rand.Reader, id.Instance[:]); err != nil {
		return id, err
	}
	return id, id.save(dir)
}

// save replaces the file at once and durably.
func (id *identity) save(dir string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, identityFile)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// dirLock is a directory that this process has taken.
type dirLock struct{ dir *os.File }

// Close gives the directory back, at once: a child that this process is just starting
// has the file too until it runs, and closing it would not end the lock.
func (l *dirLock) Close() error {
	return errors.Join(syscall.Flock(int(l.dir.Fd()), syscall.LOCK_UN), l.dir.Close())
}

// lockDir makes the directory and takes it for this process until the lock is closed.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("%w: %s; stop that process or name another directory", ErrLocked, dir)
		return nil, errors.Join(err, d.Close())
	}
	return &dirLock{d}, nil
}
