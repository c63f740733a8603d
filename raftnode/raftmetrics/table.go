package raftmetrics

import "github.com/prometheus/client_golang/prometheus"

// kind says what a measurement becomes.
type kind int

const (
	counter kind = iota
	gauge
	gaugeMs // in milliseconds there, in seconds here
	timer   // in milliseconds there, a histogram in seconds here
	sample  // a histogram of plain numbers
)

// line is one measurement of raft v1.7. Lines of the same name are one metric, told
// apart by their labels.
type line struct {
	key        string // as raft calls it, joined with dots
	kind       kind
	name, help string
	// label is set to value. More is the label that takes the value of raft's label
	// from; empty: there is none.
	label, value string
	more, from   string
}

const prefix = "cpnode_hashicorp_raft_"

const (
	helpState   = "Times that this node became a follower, candidate or leader."
	helpTimeout = "Times that a follower gave up its leader (heartbeat), or a leader itself (leader_lease)."
	helpFSM     = "Time of raft's calls of the state machine."
	helpSnap    = "Time of the steps of a snapshot, and of cutting the log behind it."
	helpRPC     = "Time to handle a message of another node."
	helpNet     = "Time of the steps in which a message is taken off the network, by type of message."
	helpReplica = "Time until another member has answered a message."
	helpElect   = "Time of asking for votes."
	helpWork    = "Share of the time that raft's goroutines are busy, measured once a second."
)

// table is everything that raft measures. What it also measures under names that end
// in a peer's name is switched off (NoLegacyTelemetry).
var table = []line{
	{key: "raft.apply", kind: counter, name: "applies_total", help: "Entries handed to raft."},
	{key: "raft.barrier", kind: counter, name: "barriers_total", help: "Barriers asked of raft."},
	{key: "raft.verify_leader", kind: counter, name: "verify_leader_total", help: "Leadership checks asked of raft."},
	{key: "raft.restore", kind: counter, name: "user_restores_total", help: "Snapshots given to raft from outside."},
	{key: "raft.restoreUserSnapshot", kind: timer, name: "user_restore_duration_seconds", help: "Time to take in a snapshot given from outside."},
	{key: "raft.state.follower", kind: counter, name: "state_changes_total", help: helpState, label: "state", value: "follower"},
	{key: "raft.state.candidate", kind: counter, name: "state_changes_total", help: helpState, label: "state", value: "candidate"},
	{key: "raft.state.leader", kind: counter, name: "state_changes_total", help: helpState, label: "state", value: "leader"},
	{key: "raft.transition.heartbeat_timeout", kind: counter, name: "timeouts_total", help: helpTimeout, label: "kind", value: "heartbeat"},
	{key: "raft.transition.leader_lease_timeout", kind: counter, name: "timeouts_total", help: helpTimeout, label: "kind", value: "leader_lease"},
	{key: "raft.candidate.electSelf", kind: timer, name: "election_duration_seconds", help: helpElect, label: "kind", value: "vote"},
	{key: "raft.candidate.preElectSelf", kind: timer, name: "election_duration_seconds", help: helpElect, label: "kind", value: "pre_vote"},

	{key: "raft.peers", kind: gauge, name: "peers", help: "Members in the configuration, as the leader last noted them."},
	{key: "raft.commitNumLogs", kind: gauge, name: "commit_entries", help: "Entries that were committed together last."},
	{key: "raft.commitTime", kind: timer, name: "commit_duration_seconds", help: "Time from handing an entry to raft to its commit, on the leader."},
	{key: "raft.leader.dispatchLog", kind: timer, name: "leader_append_duration_seconds", help: "Time of a leader's write to its own log."},
	{key: "raft.leader.dispatchNumLogs", kind: gauge, name: "leader_append_entries", help: "Entries that the leader wrote together last."},
	{key: "raft.leader.oldestLogAge", kind: gaugeMs, name: "leader_oldest_entry_age_seconds", help: "Age of the oldest entry in the leader's log."},
	{key: "raft.leader.lastContact", kind: timer, name: "leader_last_contact_seconds", help: "Time since each follower was heard of, when the leader checked its lease."},

	{key: "raft.fsm.enqueue", kind: timer, name: "fsm_duration_seconds", help: helpFSM, label: "call", value: "enqueue"},
	{key: "raft.fsm.apply", kind: timer, name: "fsm_duration_seconds", help: helpFSM, label: "call", value: "apply"},
	{key: "raft.fsm.applyBatch", kind: timer, name: "fsm_duration_seconds", help: helpFSM, label: "call", value: "apply_batch"},
	{key: "raft.fsm.store_config", kind: timer, name: "fsm_duration_seconds", help: helpFSM, label: "call", value: "store_configuration"},
	{key: "raft.fsm.snapshot", kind: timer, name: "fsm_duration_seconds", help: helpFSM, label: "call", value: "snapshot"},
	{key: "raft.fsm.restore", kind: timer, name: "fsm_duration_seconds", help: helpFSM, label: "call", value: "restore"},
	{key: "raft.fsm.lastRestoreDuration", kind: gaugeMs, name: "fsm_last_restore_duration_seconds", help: "Time that the last restore took."},
	{key: "raft.fsm.applyBatchNum", kind: sample, name: "fsm_batch_entries", help: "Entries that the state machine was given together."},
	{key: "raft.thread.main.saturation", kind: sample, name: "thread_busy_ratio", help: helpWork, label: "thread", value: "main"},
	{key: "raft.thread.fsm.saturation", kind: sample, name: "thread_busy_ratio", help: helpWork, label: "thread", value: "fsm"},

	{key: "raft.snapshot.takeSnapshot", kind: timer, name: "snapshot_duration_seconds", help: helpSnap, label: "step", value: "all"},
	{key: "raft.snapshot.create", kind: timer, name: "snapshot_duration_seconds", help: helpSnap, label: "step", value: "create"},
	{key: "raft.snapshot.persist", kind: timer, name: "snapshot_duration_seconds", help: helpSnap, label: "step", value: "persist"},
	{key: "raft.compactLogs", kind: timer, name: "snapshot_duration_seconds", help: helpSnap, label: "step", value: "compact_log"},
	{key: "raft.removeOldLogs", kind: timer, name: "snapshot_duration_seconds", help: helpSnap, label: "step", value: "remove_log"},

	{key: "raft.rpc.processHeartbeat", kind: timer, name: "rpc_duration_seconds", help: helpRPC, label: "rpc", value: "heartbeat"},
	{key: "raft.rpc.appendEntries", kind: timer, name: "rpc_duration_seconds", help: helpRPC, label: "rpc", value: "append_entries"},
	{key: "raft.rpc.appendEntries.storeLogs", kind: timer, name: "rpc_duration_seconds", help: helpRPC, label: "rpc", value: "append_entries_store"},
	{key: "raft.rpc.appendEntries.processLogs", kind: timer, name: "rpc_duration_seconds", help: helpRPC, label: "rpc", value: "append_entries_process"},
	{key: "raft.rpc.requestVote", kind: timer, name: "rpc_duration_seconds", help: helpRPC, label: "rpc", value: "request_vote"},
	{key: "raft.rpc.installSnapshot", kind: timer, name: "rpc_duration_seconds", help: helpRPC, label: "rpc", value: "install_snapshot"},
	{key: "raft.net.getRPCType", kind: timer, name: "net_wait_duration_seconds", help: "Time until the first byte of the next message."},
	{key: "raft.net.rpcDecode", kind: timer, name: "net_duration_seconds", help: helpNet, label: "step", value: "decode", more: "rpc", from: "rpcType"},
	{key: "raft.net.rpcEnqueue", kind: timer, name: "net_duration_seconds", help: helpNet, label: "step", value: "enqueue", more: "rpc", from: "rpcType"},
	{key: "raft.net.rpcRespond", kind: timer, name: "net_duration_seconds", help: helpNet, label: "step", value: "respond", more: "rpc", from: "rpcType"},

	{key: "raft.replication.heartbeat", kind: timer, name: "replication_duration_seconds", help: helpReplica, label: "rpc", value: "heartbeat", more: "peer", from: "peer_id"},
	{key: "raft.replication.appendEntries.rpc", kind: timer, name: "replication_duration_seconds", help: helpReplica, label: "rpc", value: "append_entries", more: "peer", from: "peer_id"},
	{key: "raft.replication.installSnapshot", kind: timer, name: "replication_duration_seconds", help: helpReplica, label: "rpc", value: "install_snapshot", more: "peer", from: "peer_id"},
	{key: "raft.replication.appendEntries.logs", kind: counter, name: "replication_entries_total", help: "Entries sent to another member.", more: "peer", from: "peer_id"},
}

var (
	// From a call in memory to an election on a slow network, in steps of four: these
	// are for finding a cause, and there are many.
	timeBuckets = prometheus.ExponentialBuckets(0.000_1, 4, 9)
	// Up to the most entries of one message.
	countBuckets = prometheus.ExponentialBuckets(1, 4, 6)
	ratioBuckets = []float64{.1, .25, .5, .75, .9, 1}
)

func (l *line) labels() (names []string) {
	for _, name := range []string{l.label, l.more} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (l *line) buckets() []float64 {
	switch {
	case l.kind == timer:
		return timeBuckets
	case l.label == "thread":
		return ratioBuckets
	default:
		return countBuckets
	}
}
