package raftnode

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// Peer is one node of the cluster.
type Peer struct {
	ID   string `json:"id"`
	Addr string `json:"addr"` // host:port of its raft port, resolved at each dial
}

// Config says how to run a node. Start from DefaultConfig.
type Config struct {
	// NodeID names the node within its cluster for ever; 1 to 64 bytes of
	// letters, digits, '.', '_', '-'.
	NodeID string
	// DataDir holds everything the node keeps; it is made when missing.
	DataDir string
	// RaftAddr is the host:port to listen on. Port 0 picks a free one.
	RaftAddr string
	// RaftAdvertise is where others reach this node; empty: the address of this
	// node in Peers, or else the one it listens on.
	RaftAdvertise string
	// HTTPAdvertise is where clients reach this node, for others to know; it may be
	// empty.
	HTTPAdvertise string
	// Peers is every node of the cluster, this one included. Those who form it are
	// given the same. Later it only says where to look for the others. Empty at the
	// first start: the node is a cluster of its own.
	Peers []Peer

	// RaftTLS and RaftSecretFile are how nodes know each other: by certificates, or
	// by what a file holds, the same on all. At most one of them is given.
	RaftTLS        TLSFiles
	RaftSecretFile string
	// Insecure allows neither, with a RaftAddr that is not on loopback.
	Insecure bool

	// DeadNodeCleanup is how long a voter may be silent before the leader removes
	// it, while more than three are left; 0 is for ever.
	DeadNodeCleanup time.Duration

	// Settings go into log entries and bound requests.
	Settings ops.Settings
	// MaxProposals and MaxProposalBytes bound what is proposed and not yet
	// answered; beyond them a write is refused with OVERLOADED.
	MaxProposals     int
	MaxProposalBytes int64
	// OutcomeTimeout bounds the wait for one entry's outcome.
	OutcomeTimeout time.Duration
	// ReadTimeout bounds the wait until a read may be answered.
	ReadTimeout time.Duration

	// HeartbeatTimeout, ElectionTimeout, LeaderLeaseTimeout and CommitTimeout
	// are raft's.
	HeartbeatTimeout   time.Duration
	ElectionTimeout    time.Duration
	LeaderLeaseTimeout time.Duration
	CommitTimeout      time.Duration
	// MaxAppendEntries bounds the entries of one message, of one write to the
	// log, and of one transaction on the state.
	MaxAppendEntries int
	// TrailingLogs entries stay in the log behind a snapshot, so that a node that
	// was away for a moment, or is busy installing one, needs no other.
	TrailingLogs uint64
	// SnapshotThreshold entries after the last one, looked at every one to two
	// SnapshotIntervals, a snapshot is taken.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration

	// RaftLogStore is where a new directory keeps the entries of raft's log:
	// LogStoreBoltDB or LogStoreWAL. One that has entries keeps them where they are.
	RaftLogStore string

	// LeaderSlowDisk is how long writes to the raft log may stay slow, or none be
	// committed while some wait, before a leader makes way; 0: for ever.
	LeaderSlowDisk time.Duration
	// CheckpointInterval is how often the nodes compare the digests of their states,
	// if those have changed; 0: never.
	CheckpointInterval time.Duration
	// ClockMaxSkew is how far a leader's clock may be from a majority's.
	ClockMaxSkew time.Duration
	// DiskMinFree bytes must be free in the data directory's file system for
	// clients' writes to be taken; 0: it is not looked at.
	DiskMinFree int64

	// StateSync says when the state file is synced: "always" with every transaction;
	// "interval" when StateSyncInterval has passed or StateSyncMaxTransactions were
	// made since the last time, and with every snapshot. What a crash of the machine
	// takes from the state then comes back from the log.
	StateSync                string
	StateSyncInterval        time.Duration
	StateSyncMaxTransactions int
	// StateMaxBytes bounds the state file; 0 is 64 GiB with StateSync "interval", else
	// no bound; the least is 64 MiB. A quarter of it, at most 256 MiB, is kept for what
	// frees space. Entries that do not fit wait.
	StateMaxBytes int
	// Child verifies a state file that a crash of the machine may have torn, in a
	// process of its own. The zero value starts this executable, whose main must call
	// ChildMain first; without either such a file is refused.
	Child store.Child

	// Logger takes the node's and raft's lines; nil drops them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none. Nodes that share a process
	// need one each, or labels (prometheus.WrapRegistererWith).
	Registerer prometheus.Registerer
	// Now is the wall clock that stamps entries.
	Now func() time.Time

	// Surroundings replace the network and the disk, for tests and simulators.
	Surroundings Surroundings

	// beforeAppend is called before each append to the raft log, for tests.
	beforeAppend func()
	// confirm overrides how leadership is confirmed, for tests that compare.
	confirm confirmFunc
	// pollInterval is how often a leader asks the members how they are, and a node
	// without a leader whether it still is one.
	pollInterval time.Duration
}

// Surroundings are what a node meets outside of its process. What is nil is real.
type Surroundings struct {
	// Listen and Dial make the connections between nodes, in place of TCP. Dial ends
	// with its context. Of a connection of theirs a read whose deadline has passed says
	// whether there is something to read, or an end, before it says that it is late.
	Listen func(addr string) (net.Listener, error)
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	// Log keeps raft's entries and promises in place of the files of RaftLogStore. It
	// is called once, by Open, and its result closed with the node.
	Log func() (LogDisk, error)
	// State sees each change to the files of the state before it is made, and refuses
	// it with an error: see store.Options.Watch.
	State func(store.Change) error
	// FreeBytes is what is free in the data directory's file system, negative when
	// it is not known.
	FreeBytes func() int64
	// BootID tells the boots of the machine apart.
	BootID func() string
}

// DefaultConfig is everything but NodeID, DataDir and the addresses. Its timers
// let the others notice a dead leader within a second and have a new one within
// two, also on machines where a disk write now and then takes 200 ms.
func DefaultConfig() Config {
	return Config{
		RaftAddr: "127.0.0.1:7400",
		Settings: ops.DefaultSettings(), MaxProposals: 4096, MaxProposalBytes: 64 << 20,
		OutcomeTimeout: 10 * time.Second, ReadTimeout: 5 * time.Second,
		HeartbeatTimeout: 500 * time.Millisecond, ElectionTimeout: 500 * time.Millisecond,
		LeaderLeaseTimeout: 500 * time.Millisecond, CommitTimeout: 50 * time.Millisecond,
		LeaderSlowDisk: 5 * time.Second, DiskMinFree: 256 << 20, ClockMaxSkew: 10 * time.Second, CheckpointInterval: 10 * time.Second,
		MaxAppendEntries: 512,
		TrailingLogs:     32_768, SnapshotThreshold: 32_768, SnapshotInterval: 30 * time.Second,
		RaftLogStore: LogStoreWAL,
		StateSync:    StateSyncInterval, StateSyncInterval: time.Second, StateSyncMaxTransactions: 50,
		Now: time.Now, pollInterval: time.Second,
	}
}

// Validate names the first field that is wrong.
func (c *Config) Validate() error {
	switch {
	case !validNodeID(c.NodeID):
		return fmt.Errorf("NodeID: %q must be 1 to %d letters, digits, '.', '_' or '-'", c.NodeID, maxNodeID)
	case c.DataDir == "":
		return fmt.Errorf("DataDir: must be given")
	case c.MaxProposals < 1:
		return fmt.Errorf("MaxProposals: %d must be at least 1", c.MaxProposals)
	case c.MaxProposalBytes < int64(max(c.Settings.Limits.EntryBytes, c.Settings.Limits.SealEntryBytes)):
		return fmt.Errorf("MaxProposalBytes: %d must hold one entry (%d, of a seal %d)", c.MaxProposalBytes, c.Settings.Limits.EntryBytes, c.Settings.Limits.SealEntryBytes)
	case c.Settings.Limits.EntryBytes < 1 || c.Settings.Limits.RequestBytes < 1:
		return fmt.Errorf("Settings.Limits: EntryBytes and RequestBytes must be at least 1")
	case c.OutcomeTimeout <= 0:
		return fmt.Errorf("OutcomeTimeout: must be positive")
	case c.ReadTimeout <= 0:
		return fmt.Errorf("ReadTimeout: must be positive")
	case c.StateSync != StateSyncAlways && c.StateSync != StateSyncInterval:
		return fmt.Errorf("StateSync: %q must be %q or %q", c.StateSync, StateSyncAlways, StateSyncInterval)
	case c.RaftLogStore != LogStoreBoltDB && c.RaftLogStore != LogStoreWAL:
		return fmt.Errorf("RaftLogStore: %q must be %q or %q", c.RaftLogStore, LogStoreBoltDB, LogStoreWAL)
	case c.StateSyncInterval <= 0:
		return fmt.Errorf("StateSyncInterval: must be positive")
	case c.StateSyncMaxTransactions < 1:
		return fmt.Errorf("StateSyncMaxTransactions: %d must be at least 1", c.StateSyncMaxTransactions)
	case c.StateMaxBytes != 0 && c.StateMaxBytes < minStateBytes:
		return fmt.Errorf("StateMaxBytes: %d must be 0 or at least %d", c.StateMaxBytes, minStateBytes)
	case c.ClockMaxSkew <= 0:
		return fmt.Errorf("ClockMaxSkew: must be positive")
	case c.LeaderSlowDisk < 0 || c.DiskMinFree < 0 || c.CheckpointInterval < 0:
		return fmt.Errorf("LeaderSlowDisk, DiskMinFree and CheckpointInterval: must not be negative")
	case c.Now == nil:
		return fmt.Errorf("Now: must be given")
	}
	if err := validAddr(c.RaftAddr, true); err != nil {
		return fmt.Errorf("RaftAddr: %w", err)
	}
	if err := c.validateSecurity(); err != nil {
		return err
	}
	if err := c.validatePeers(); err != nil {
		return err
	}
	if err := raft.ValidateConfig(c.RaftConfig()); err != nil {
		return fmt.Errorf("raft timers: %w", err)
	}
	return nil
}

func (c *Config) validatePeers() error {
	if c.RaftAdvertise != "" {
		if err := validAddr(c.RaftAdvertise, false); err != nil {
			return fmt.Errorf("RaftAdvertise: %w", err)
		}
	}
	ids, addrs := map[string]bool{}, map[string]bool{}
	for _, p := range c.Peers {
		if !validNodeID(p.ID) {
			return fmt.Errorf("Peers: %q is not a node id", p.ID)
		}
		if err := validAddr(p.Addr, false); err != nil {
			return fmt.Errorf("Peers: %s: %w", p.ID, err)
		}
		if ids[p.ID] || addrs[p.Addr] {
			return fmt.Errorf("Peers: %s=%s is there twice", p.ID, p.Addr)
		}
		ids[p.ID], addrs[p.Addr] = true, true
		if p.ID == c.NodeID && c.RaftAdvertise != "" && p.Addr != c.RaftAdvertise {
			return fmt.Errorf("Peers: %s=%s is this node, and RaftAdvertise says %s; give the same address in both, or no RaftAdvertise", p.ID, p.Addr, c.RaftAdvertise)
		}
	}
	if len(c.Peers) > 0 && !ids[c.NodeID] {
		return fmt.Errorf("Peers: this node (%s) is missing; add %s=host:port", c.NodeID, c.NodeID)
	}
	if len(c.Peers) == 0 && c.RaftAdvertise == "" && wildcard(c.RaftAddr) {
		return fmt.Errorf("RaftAdvertise: must be given: RaftAddr %s is not an address that others can dial", c.RaftAddr)
	}
	return nil
}

func wildcard(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip != nil && ip.IsUnspecified())
}

func (c *Config) validateSecurity() error {
	t := c.RaftTLS
	switch {
	case t.given() && (t.CertFile == "" || t.KeyFile == "" || t.CAFile == ""):
		return fmt.Errorf("RaftTLS: certificate, key and authority go together")
	case t.given() && c.RaftSecretFile != "":
		return fmt.Errorf("RaftSecretFile: is not used with RaftTLS; give one of them")
	case !t.given() && c.RaftSecretFile == "" && !c.Insecure && !onLoopback(c.RaftAddr):
		return fmt.Errorf("RaftAddr: %s is not a loopback address, and whoever reaches it could change the cluster; give RaftTLS or RaftSecretFile, or Insecure on a network you trust", c.RaftAddr)
	case c.DeadNodeCleanup < 0:
		return fmt.Errorf("DeadNodeCleanup: must not be negative")
	}
	return nil
}

// onLoopback says whether nobody beyond this machine can reach an address. A name
// other than localhost may become anything.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

const (
	maxNodeID     = 64
	minStateBytes = 64 << 20
)

func validNodeID(id string) bool {
	if id == "" || len(id) > maxNodeID {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}) < 0
}

// validAddr checks host:port. Others cannot dial a wildcard address or port 0.
func validAddr(addr string, toListen bool) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not host:port", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: port %q is not a port", addr, port)
	}
	if !toListen && (port == "0" || wildcard(addr)) {
		return fmt.Errorf("%q is not an address that others can dial", addr)
	}
	return nil
}

// RaftConfig is the raft configuration that the node runs with, without logger and
// with the node's name for its server id.
func (c *Config) RaftConfig() *raft.Config {
	r := raft.DefaultConfig()
	r.LocalID = raft.ServerID(c.NodeID)
	r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout = c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout
	r.CommitTimeout = c.CommitTimeout
	r.MaxAppendEntries, r.BatchApplyCh = c.MaxAppendEntries, true
	r.TrailingLogs, r.SnapshotThreshold, r.SnapshotInterval = c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval
	r.NoLegacyTelemetry = true
	// A snapshot is a record of the state file, which is there already.
	r.NoSnapshotRestoreOnStart = true
	return r
}
