package config

import (
	"slices"
	"strings"

	"github.com/cpnode/cpnode/raftnode"
)

// Key is one line of the registry.
type Key struct {
	// Name is the key in files, and with CPNODE_ before it and _ for . in capitals
	// the environment variable.
	Name string
	// dashed keys have a flag with - for . because they are typed often.
	dashed bool
	field  func(*Config) value
	// Meaning is a sentence for help and reference.
	Meaning string
}

// Flag is the name of the key's flag.
func (k Key) Flag() string {
	if k.dashed {
		return strings.ReplaceAll(k.Name, ".", "-")
	}
	return k.Name
}

// Env is the name of the key's environment variable.
func (k Key) Env() string { return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_")) }

// Value is what the key is set to in c, as it would be written in a file.
func (k Key) Value(c *Config) string { return k.field(c).String() }

// Type is one word: int, bytes, ms, bool, word, string, address or list.
func (k Key) Type() string { return k.field(new(Config)).Type() }

// Allowed is the range of values, empty for any.
func (k Key) Allowed() string { return k.field(new(Config)).Allowed() }

// Bounds of times and sizes that several keys share.
const (
	day  = 86_400_000
	year = 365 * day
	mib  = 1 << 20
	gib  = 1 << 30
)

// Keys is every key, in the order of the reference. All need a restart to change.
var Keys = slices.Concat(nodeKeys, workerKeys, objectStoreKeys, stateKeys, limitKeys, fitnessKeys, raftKeys)

var nodeKeys = []Key{
	{"node.id", true, func(c *Config) value { return text{&c.Node.NodeID, "1 to 64 letters, digits, . _ -"} },
		"Name of the node within its cluster, for ever."},
	{"data.dir", true, func(c *Config) value { return text{&c.Node.DataDir, ""} },
		"Directory that holds everything the node keeps; made when missing."},
	{"http.addr", true, func(c *Config) value { return address{&c.HTTPAddr, false} },
		"Address to serve HTTP on; port 0 picks a free one."},
	{"http.advertise", true, func(c *Config) value { return address{&c.HTTPAdvertise, true} },
		"Where clients reach this node, as it says at its start and to the other nodes; empty: the address it serves on, with the host of raft.advertise where it serves on all."},
	{"raft.addr", true, func(c *Config) value { return address{&c.Node.RaftAddr, false} },
		"Address to listen on for the other nodes; port 0 picks a free one."},
	{"raft.advertise", true, func(c *Config) value { return address{&c.Node.RaftAdvertise, true} },
		"Where the other nodes reach this one; empty: its address in peers."},
	{"peers", true, func(c *Config) value { return peers{&c.Node.Peers} },
		"Every node of the cluster, this one included, the same on all that form it; empty at the first start: a cluster of one. Later, where to look for the others."},
	{"insecure", true, func(c *Config) value { return boolean{&c.Node.Insecure} },
		"Allow addresses beyond loopback without authentication."},
	{"raft.tls.cert.file", false, func(c *Config) value { return text{&c.Node.RaftTLS.CertFile, "path"} },
		"Certificate of this node in PEM, by which the other nodes know it for one of theirs, whatever name is in it; for server and client use. Read again when it changes."},
	{"raft.tls.key.file", false, func(c *Config) value { return text{&c.Node.RaftTLS.KeyFile, "path"} },
		"Its key in PEM."},
	{"raft.tls.ca.file", false, func(c *Config) value { return text{&c.Node.RaftTLS.CAFile, "path"} },
		"Authority in PEM that the certificates of all nodes are from, and of nobody else."},
	{"raft.secret.file", false, func(c *Config) value { return text{&c.Node.RaftSecretFile, "path"} },
		"Without TLS: file with a secret of at least 16 bytes, the same on all nodes, by which they know each other. It keeps strangers out, not those who can change packets on the way."},
	{"dead.node.cleanup.ms", false, func(c *Config) value { return millis(&c.Node.DeadNodeCleanup, 0, year) },
		"How long a voter may be silent before the leader removes it, while more than three are left; 0 is for ever."},
	{"log.level", true, func(c *Config) value { return level{&c.LogLevel} },
		"Least severe log line to write."},
	{"log.format", true, func(c *Config) value { return oneOf{&c.LogFormat, []string{LogText, LogJSON}} },
		"Form of log lines."},
}

var stateKeys = []Key{
	{"batch.coalescing.enabled", false, func(c *Config) value { return boolean{&c.Node.Settings.Coalesce} },
		"Join adjacent batches of a commit into one row."},
	{"commit.replay.retention.ms", false, func(c *Config) value { return millis(&c.Node.Settings.ReplayRetentionMs, 0, 10*year) },
		"How long a commit that is sent again gets its original answer."},
	{"forgotten.key.retention.ms", false, func(c *Config) value { return millis(&c.Node.Settings.ForgottenKeyRetentionMs, 0, 10*year) },
		"How long the key of a forgotten file is fenced against a late copy of its commit."},
	{"object.fence.retention.ms", false, func(c *Config) value { return millis(&c.Node.Settings.ObjectFenceRetentionMs, 0, 10*year) },
		"How long a fence of is-safe-to-delete-file holds."},
	{"topic.purger.max.batches.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.PurgeRows, 1, 100_000) },
		"Rows that one log entry of purge-deleted-logs may take: bounds how long a commit can wait."},
	{"consolidation.cleanup.max.batches.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.PruneRows, 1, 100_000) },
		"The same of prune-diskless-logs."},
	{"retention.enforcement.max.batches.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.RetentionRows, 1, 100_000) },
		"The same of enforce-retention."},
	{"delete.records.max.batches.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.DeleteRecordsRows, 1, 100_000) },
		"The same of delete-records."},
	{"expire.max.rows.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.ExpireRows, 1, 100_000) },
		"The same of expire-producers, expire-fences and expire-replays."},
	{"request.max.items.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.ItemRows, 1, 100_000) },
		"Items that one log entry of an operation over many logs or files may take."},
	{"broker.max.partitions.per.entry", false, func(c *Config) value { return count(&c.Node.Settings.BrokerRows, 1, 100_000) },
		"Partitions of a broker that one log entry may visit when the broker is fenced, unfenced or registered."},
	{"broker.session.timeout.ms", false, func(c *Config) value { return millis(&c.Node.Settings.BrokerSessionMs, 100, day) },
		"Silence of a broker after which it is fenced."},
	{"state.sync", false, func(c *Config) value {
		return oneOf{&c.Node.StateSync, []string{raftnode.StateSyncAlways, raftnode.StateSyncInterval}}
	},
		"When the state file is synced: with every transaction, or at sync points, from which the log brings back what a crash of the machine took."},
	{"state.sync.interval.ms", false, func(c *Config) value { return millis(&c.Node.StateSyncInterval, 1, 3_600_000) },
		"Longest time between two sync points while the state changes."},
	{"state.sync.max.transactions", false, func(c *Config) value { return count(&c.Node.StateSyncMaxTransactions, 1, 1_000_000) },
		"Most transactions on the state between two sync points: bounds how far the file grows between them."},
	{"state.max.bytes", false, func(c *Config) value { return bytes(&c.Node.StateMaxBytes, 0, 64*1024*gib) },
		"Size that the state file may grow to; entries that do not fit wait. 0: 64 GiB with state.sync interval, else no bound."},
	{"watch.history.events", false, func(c *Config) value { return count(&c.Node.Settings.EventHistory, 1, 10_000_000) },
		"Log entries with changes of topics, brokers and partitions that are kept for watches; that of the leader counts."},
}

var limitKeys = []Key{
	{"request.max.bytes", false, func(c *Config) value { return bytes(&c.Node.Settings.Limits.RequestBytes, 1024, gib) },
		"Largest body of a request."},
	{"entry.max.bytes", false, func(c *Config) value { return bytes(&c.Node.Settings.Limits.EntryBytes, 1024, 63*mib) },
		"Largest log entry."},
	{"seal.entry.max.bytes", false, func(c *Config) value { return bytes(&c.Node.Settings.Limits.SealEntryBytes, 1024, 63*mib) },
		"Largest log entry of commit-seal, which holds all producers of a partition."},
	{"commit.max.batches", false, func(c *Config) value { return count(&c.Node.Settings.Limits.Batches, 1, 1_000_000) },
		"Batches of a commit."},
	{"request.max.items", false, func(c *Config) value { return count(&c.Node.Settings.Limits.Items, 1, 1_000_000) },
		"Items of any other request."},
	{"init.max.producer.states", false, func(c *Config) value { return count(&c.Node.Settings.Limits.ProducerRows, 1, 1_000_000) },
		"Producer states of one item of init-diskless-log."},
	{"topic.max.partitions", false, func(c *Config) value { return count(&c.Node.Settings.Limits.Partitions, 1, 100_000) },
		"Partitions of a topic."},
	{"object.key.max.bytes", false, func(c *Config) value { return bytes(&c.Node.Settings.Limits.ObjectKey, 1, 16*1024) },
		"Longest object key."},
	{"answer.max.rows", false, func(c *Config) value { return count(&c.Node.Settings.Limits.AnswerRows, 1, 10_000_000) },
		"Rows of an answer, also where a limit of 0 means none."},
	{"list.max.rows", false, func(c *Config) value { return count(&c.Node.Settings.Limits.ListedMaximum, 1, 1_000_000) },
		"Rows of a list's page at most, unless its limit is 0; a limit above this and above 1000 is refused."},
	{"proposals.max", false, func(c *Config) value { return count(&c.Node.MaxProposals, 1, 1_000_000) },
		"Log entries in flight; beyond it writes answer OVERLOADED."},
	{"proposals.max.bytes", false, func(c *Config) value { return bytes(&c.Node.MaxProposalBytes, 1024, 16*gib) },
		"Bytes of log entries in flight; the same."},
	{"outcome.timeout.ms", false, func(c *Config) value { return millis(&c.Node.OutcomeTimeout, 10, day) },
		"Longest wait for the outcome of one log entry; then OUTCOME_UNKNOWN."},
	{"read.timeout.ms", false, func(c *Config) value { return millis(&c.Node.ReadTimeout, 10, day) },
		"Longest wait until a read may be answered; then NOT_CAUGHT_UP."},
}

var fitnessKeys = []Key{
	{"leader.slow.disk.ms", false, func(c *Config) value { return millis(&c.Node.LeaderSlowDisk, 0, day) },
		"How long writes to a leader's raft log may stay slow, or entries wait without any being committed, before another node leads; 0: for ever."},
	{"clock.max.skew.ms", false, func(c *Config) value { return millis(&c.Node.ClockMaxSkew, 1, day) },
		"How far a leader's clock may be from those of a majority; beyond it the node proposes nothing and another one leads."},
	{"checkpoint.digest.interval.ms", false, func(c *Config) value { return millis(&c.Node.CheckpointInterval, 0, day) },
		"How often the nodes compare the digests of their states, if those have changed; a node that differs from the majority stops. 0: never."},
	{"disk.min.free.bytes", false, func(c *Config) value { return bytes(&c.Node.DiskMinFree, 0, 1024*gib) },
		"Free space of the data directory's file system below which writes answer STORAGE_FULL and another node leads; 0: not looked at."},
}

var raftKeys = []Key{
	{"raft.heartbeat.timeout.ms", false, func(c *Config) value { return millis(&c.Node.HeartbeatTimeout, 5, 60_000) },
		"Silence of the leader after which a follower asks for an election."},
	{"raft.election.timeout.ms", false, func(c *Config) value { return millis(&c.Node.ElectionTimeout, 5, 60_000) },
		"Longest time of one election; at least the heartbeat timeout."},
	{"raft.leader.lease.timeout.ms", false, func(c *Config) value { return millis(&c.Node.LeaderLeaseTimeout, 5, 60_000) },
		"A leader that reached no majority for so long steps down; at most the heartbeat timeout."},
	{"raft.commit.timeout.ms", false, func(c *Config) value { return millis(&c.Node.CommitTimeout, 1, 60_000) },
		"Pause after which an idle leader tells followers what is committed."},
	{"raft.max.append.entries", false, func(c *Config) value { return count(&c.Node.MaxAppendEntries, 1, 1024) },
		"Entries of one message, one write to the log and one transaction on the state."},
	{"raft.log.store", false, func(c *Config) value {
		return oneOf{&c.Node.RaftLogStore, []string{raftnode.LogStoreBoltDB, raftnode.LogStoreWAL}}
	},
		"Where a new directory keeps the raft log: in one bbolt file, or in segment files with one sync an append. A directory that has a log keeps it where it is; nodes may differ."},
	{"raft.trailing.logs", false, func(c *Config) value { return count(&c.Node.TrailingLogs, 1, unbounded) },
		"Entries that stay in the log behind a snapshot."},
	{"raft.snapshot.threshold", false, func(c *Config) value { return count(&c.Node.SnapshotThreshold, 1, unbounded) },
		"Entries after the last snapshot that make the next one due."},
	{"raft.snapshot.interval.ms", false, func(c *Config) value { return millis(&c.Node.SnapshotInterval, 5, day) },
		"How often a node looks whether a snapshot is due."},
}
