package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// pendingA is topic @a with n partitions of the replicas 1 and 2, in the switch; the
// leader is 1 under epoch 1.
func pendingA(n int) []step {
	return append(liveBrokers(3), partitions(n, "1, 2", tiered), beginA)
}

func TestSwitchOfAPartition(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(3), partitions(1, "1, 2", tiered))...)
	n.is(0, ops.StateClassic, 1, 0, 0, 1, 2)
	n.later(beginA, beginA.logs(0))
	n.is(0, ops.StateSwitchPending, 1, 1, 1, 1, 2)
	n.later(seals(0, 1, 1, 5, 40), seals(0, 1, 1, 5, 40).logs(0))
	n.is(0, ops.StatePrefixWaitingForUpload, 1, 1, 2, 1, 2)
	n.later(beginA.logs(0), flags(0, 1, 1, 5, 39))
	n.is(0, ops.StatePrefixInRemoteStorage, 1, 2, 3, 1, 2)
	n.later(
		flags(0, 1, 2, 5, 39).logs(0), seals(0, 1, 1, 5, 40).logs(0), beginA.logs(0),
		step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 5, "high_watermark": 40, "diskless_start_offset": 40, "byte_size": 0, "remote_log_start_offset": -1}]}`, 0},
		commit("wal/1", batch(0, 5)).wants(`{"batches": [{"topic_id": "@a", "partition": 0, "error": "NONE", "assigned_base_offset": 40, "log_append_time": 1150, "log_start_offset": 5, "duplicate": false}], "replayed": false}`),
		step{"describe-topic", `{"topic_id": "@a"}`, "", 0},
		deleteA.wants(`{"logs_deleted": 1}`),
	)
}

func TestBeginSwitchRefuses(t *testing.T) {
	refused := func(why string) step {
		return beginA.wants(`{"error": "INVALID_REQUEST", "message": "` + why + `"}`).logs(0)
	}
	brokers := liveBrokers(2)
	for _, steps := range [][]step{
		{beginA.wants(`{"error": "UNKNOWN_TOPIC_ID", "message": "there is no such topic"}`).logs(0)},
		{createA, refused("the topic was born diskless")},
		{partitions(1, "1, 2", ""), refused("the topic has no remote storage to keep the prefix")},
		{partitions(1, "1, 2", tiered+`, "unclean.leader.election.enable": "true"`), refused("the topic allows unclean election, which could lose the prefix")},
		{partitions(2, "1, 2", tiered), fences(2), refused("partition 0: of its replicas [1 2] only [1] are in sync")},
		{partitions(2, "1", tiered), fences(1), refused("partition 0 has no leader")},
		{partitions(2, "1, 2", tiered), alters(1, 1, 0, 0, member(1)), refused("partition 1: of its replicas [1 2] only [1] are in sync")},
	} {
		play(t, ops.DefaultSettings(), append(brokers[:4:4], steps...)...)
	}
}

// All of a topic's partitions go in one entry; one that is added later goes by itself.
func TestBeginSwitchTakesEveryPartition(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(pendingA(3), seals(1, 1, 1, 0, 7), partitions(4, "1, 2", ""))...)
	n.is(3, ops.StateClassic, 1, 0, 0, 1, 2)
	n.later(beginA)
	n.is(0, ops.StateSwitchPending, 1, 1, 1, 1, 2)
	n.is(1, ops.StatePrefixWaitingForUpload, 1, 1, 2, 1, 2)
	n.is(3, ops.StateSwitchPending, 1, 1, 1, 1, 2)
}

func TestCommitSealRefuses(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(pendingA(2),
		step{"commit-seal", `{"requests": [{"topic_id": "@b", "partition": 0, "broker_id": 1, "leader_epoch": 1, "log_start_offset": 0, "diskless_start_offset": 0}]}`,
			`{"responses": [{"topic_id": "@b", "partition": 0, "error": "UNKNOWN_TOPIC_ID"}]}`, 0},
		seals(7, 1, 1, 0, 9).item(7, ops.UnknownTopicOrPartition),
		seals(0, 1, 2, 0, 9).item(0, ops.NotController),
		seals(0, 1, 0, 0, 9).item(0, ops.FencedLeaderEpoch),
		seals(0, 2, 1, 0, 9).item(0, ops.InvalidRequest),
		seals(0, 1, 1, 0, -9).item(0, ops.InvalidRequest),
		seals(0, 1, 1, -1, 9).item(0, ops.InvalidRequest),
		seals(0, 1, 1, 10, 9).item(0, ops.InvalidRequest),
		partitions(3, "1, 2", ""), seals(2, 1, 0, 0, 9).item(2, ops.InvalidRequest), // not pending
		seals(0, 1, 1, 9, 9),
		seals(0, 1, 1, 9, 10).item(0, ops.InvalidRequest), // sealed already
		seals(0, 2, 1, 9, 9).item(0, ops.InvalidRequest),
		fences(1), // the next leader
		seals(0, 1, 1, 9, 9).logs(0),
		seals(0, 1, 1, 9, 10).item(0, ops.FencedLeaderEpoch),
		seals(1, 1, 1, 0, 9).item(1, ops.FencedLeaderEpoch),
		fences(2), seals(1, -1, 3, 0, 9).item(1, ops.InvalidRequest), // nobody leads
		unfences(2), seals(1, 2, 4, 0, 9),
	)...)
	n.is(1, ops.StatePrefixWaitingForUpload, 2, 4, 5, 2)
}

// The seal, its producers and the diskless log are one entry, or none.
func TestSealBeginsTheLog(t *testing.T) {
	seal := step{"commit-seal", `{"requests": [{"topic_id": "@a", "partition": 0, "broker_id": 1, "leader_epoch": 1, "log_start_offset": 3, "diskless_start_offset": 40, "producer_states": [
		{"producer_id": 7, "producer_epoch": 2, "base_sequence": 0, "last_sequence": 9, "assigned_offset": 30, "batch_max_timestamp": 5}]}]}`, "", 1}
	n := play(t, ops.DefaultSettings(), append(pendingA(1), seal.item(0, ops.None))...)
	require.Len(t, n.stands(0).ProducerStates, 1)
	n.later(step{"get-producer-state", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": [
		{"producer_id": 7, "producer_epoch": 2, "base_sequence": 0, "last_sequence": 9, "assigned_offset": 30, "batch_max_timestamp": 5}]}]}`, 0},
		commit("wal/1", sequenced(batch(0, 6), 7, 2, 0)).wants(`{"batches": [{"topic_id": "@a", "partition": 0, "error": "NONE", "assigned_base_offset": 30, "log_append_time": 5, "log_start_offset": 3, "duplicate": true}], "replayed": false}`),
		commit("wal/2", sequenced(batch(0, 6), 7, 2, 10)))
	for _, s := range []step{
		{"init-diskless-log", `{"requests": [{"topic_id": "@a", "topic_name": "a", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 50}]}`, "", 0},
		{"repair-diskless-log", `{"requests": [{"topic_id": "@a", "partition": 0, "diskless_start_offset": 50}]}`, "", 0},
	} {
		n.later(s.item(0, ops.InvalidRequest))
	}
}

// Many seals in one request are entries of a bounded number of rows.
func TestSealsShareEntries(t *testing.T) {
	n := newNode(t, rows(2))
	n.play(startMs, append(liveBrokers(2), partitions(4, "1, 2", tiered), beginA)...)
	item := func(p string) string {
		return `{"topic_id": "@a", "partition": ` + p + `, "broker_id": 1, "leader_epoch": 1, "log_start_offset": 0, "diskless_start_offset": 4}`
	}
	answer := func(p string, code ops.Code) string {
		return `{"topic_id": "@a", "partition": ` + p + `, "error": "` + string(code) + `"}`
	}
	n.later(step{"commit-seal", `{"requests": [` + item("0") + "," + item("9") + "," + item("0") + "," + item("3") + `]}`,
		`{"responses": [` + answer("0", ops.None) + "," + answer("9", ops.UnknownTopicOrPartition) + "," + answer("0", ops.None) + "," + answer("3", ops.None) + `]}`, 2})
}

// The flag needs the last record below the seal in remote storage, or no such record.
func TestFlagNeedsCoverage(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(pendingA(4),
		flags(0, 1, 1, 0, 39).item(0, ops.InvalidRequest), // not sealed
		seals(0, 1, 1, 0, 40), seals(1, 1, 1, 0, 40), seals(2, 1, 1, 0, 0),
		flags(9, 1, 1, 0, 39).item(9, ops.UnknownTopicOrPartition),
		flags(0, 1, 2, 0, 39).item(0, ops.NotController),
		flags(0, 1, 0, 0, 39).item(0, ops.FencedLeaderEpoch),
		flags(0, 2, 1, 0, 39).item(0, ops.InvalidRequest),
		flags(0, 1, 1, 0, 38).item(0, ops.InvalidRequest),
		flags(1, 1, 1, 39, -1).item(1, ops.InvalidRequest),
		flags(0, 1, 1, 0, 39), flags(1, 1, 1, 40, -1), flags(2, 1, 1, 0, -1), // expired, empty
	)...)
	for p := range 3 {
		n.is(p, ops.StatePrefixInRemoteStorage, 1, 2, 3, 1, 2)
	}
}

// From the flag on every live replica is in the ISR, whoever was before, and both
// epochs are new.
func TestFlagTakesEveryLiveReplica(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(4), partitions(1, "1, 2, 3, 4", tiered), beginA, seals(0, 1, 1, 0, 40),
		alters(0, 1, 1, 2, member(1)), fences(3))...)
	n.is(0, ops.StatePrefixWaitingForUpload, 1, 1, 3, 1)
	n.later(flags(0, 1, 1, 0, 39))
	n.is(0, ops.StatePrefixInRemoteStorage, 1, 2, 4, 1, 2, 4)
}

// While only local disks hold the prefix, no leader is elected without it, whatever
// the config says, and the config cannot be made to say so.
func TestNoUncleanElectionWhilePrefixIsLocal(t *testing.T) {
	unclean := partitions(0, "", `"unclean.leader.election.enable": "true"`)
	for _, last := range [][]step{{}, {seals(0, 1, 1, 0, 40)}} {
		n := play(t, ops.DefaultSettings(), append(pendingA(1), last...)...)
		n.later(unclean.wants(`{"error": "INVALID_REQUEST", "message": "partition 0: its prefix is only on local disks, so no leader may be elected without it"}`).logs(0),
			fences(2), fences(1), unfences(2), elects(0, "unclean").refused(ops.EligibleLeadersNotAvailable))
		require.Equal(t, []any{int32(-1), []int32{1}}, []any{n.stands(0).Leader, n.stands(0).ISR})
	}
	n := play(t, ops.DefaultSettings(), append(pendingA(1), seals(0, 1, 1, 0, 40), flags(0, 1, 1, 0, 39), unclean,
		fences(2), fences(1), unfences(2))...)
	n.is(0, ops.StatePrefixInRemoteStorage, 2, 4, 6, 1, 2)
}

func TestOverrideSwitch(t *testing.T) {
	done := `{"error": "NONE"}`
	loses := `{"error": "NONE", "unreadable": [{"from_offset": 30, "to_offset": 40}]}`
	refused := func(s step, why string) step {
		return s.wants(`{"error": "INVALID_REQUEST", "message": "` + why + `"}`).logs(0)
	}
	n := play(t, ops.DefaultSettings(), append(pendingA(2),
		overrides(9, -1, 0, 40, "").wants(`{"error": "UNKNOWN_TOPIC_OR_PARTITION", "message": "there is no such partition"}`).logs(0),
		refused(overrides(0, -3, 0, 40, ""), "seal_offset: must be an offset, -1 or -2"),
		refused(overrides(0, 41, 0, 40, ""), "seal_offset: must be between log_start_offset and log_end_offset"),
		refused(overrides(0, 4, 5, 40, ""), "seal_offset: must be between log_start_offset and log_end_offset"),
		overrides(0, -2, 0, 40, "").wants(done))...)
	n.is(0, ops.StateSwitchPending, 1, 2, 2, 1, 2)
	n.later(overrides(0, -1, 0, 40, "").wants(done), overrides(0, -1, 0, 40, "").wants(done).logs(0))
	n.is(0, ops.StateClassic, 1, 3, 3, 1, 2)
	n.later(overrides(0, 30, 0, 40, `, "dry_run": true`).wants(loses).logs(0))
	n.is(0, ops.StateClassic, 1, 3, 3, 1, 2)
	n.later(overrides(0, 30, 0, 40, "").wants(done), overrides(0, 30, 0, 40, "").wants(done).logs(0))
	n.is(0, ops.StatePrefixWaitingForUpload, 1, 3, 4, 1, 2)
	require.EqualValues(t, 3, n.stands(0).DisklessLeaderEpoch)
	n.later(commit("wal/1", batch(0, 5)),
		refused(overrides(0, 31, 0, 40, ""), "the partition is sealed at 30; a seal can only be moved down"),
		refused(overrides(0, -1, 0, 40, ""), "the partition is sealed at 30; a seal can only be moved down"),
		overrides(0, 25, 0, 40, `, "dry_run": true`).wants(`{"error": "NONE", "unreadable": [{"from_offset": 25, "to_offset": 30}]}`).logs(0),
		overrides(0, 25, 0, 40, "").wants(done),
		step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 0, "high_watermark": 40, "diskless_start_offset": 25, "byte_size": 100, "remote_log_start_offset": -1}]}`, 0},
		flags(0, 1, 3, 0, 24), refused(overrides(0, 20, 0, 40, ""), "the prefix below 25 is in remote storage, where it stays"),
		overrides(1, -1, 0, 40, "").wants(done),
		partitions(0, "", `"unclean.leader.election.enable": "true"`),
		overrides(1, -1, 0, 40, "").wants(done).logs(0), // the same again
		refused(overrides(1, -2, 0, 40, ""), "the topic allows unclean election, which could lose the prefix"))
	n.is(1, ops.StateClassic, 1, 2, 2, 1, 2)
}

// The last partition that leaves the switch makes the topic a classic one.
func TestAbortOfTheLastPartition(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(pendingA(2), overrides(0, -1, 0, 0, ""))...)
	config := func() string { return string(n.topicConfig("@a")) }
	require.Contains(t, config(), `"diskless.enable":"true"`)
	n.later(overrides(1, -1, 0, 0, ""))
	require.Contains(t, config(), `"diskless.enable":"false"`)
	n.later(overrides(1, -2, 0, 0, "").logs(0), beginA)
	n.is(1, ops.StateSwitchPending, 1, 3, 3, 1, 2)
}

func (n *node) topicConfig(name string) []byte {
	answer, code := n.do("describe-topic", startMs, []byte(expand(`{"topic_id": "`+name+`"}`)))
	require.Empty(n.t, code)
	return answer
}

// Producers that a seal came with are forgotten when the operator says so.
func TestOverrideClearsProducers(t *testing.T) {
	seal := step{"commit-seal", `{"requests": [{"topic_id": "@a", "partition": 0, "broker_id": 1, "leader_epoch": 1, "log_start_offset": 3, "diskless_start_offset": 40, "producer_states": [
		{"producer_id": 7, "producer_epoch": 2, "base_sequence": 0, "last_sequence": 9, "assigned_offset": 30, "batch_max_timestamp": 5}]}]}`, "", 1}
	n := play(t, ops.DefaultSettings(), append(pendingA(1), seal, overrides(0, 39, 3, 40, ""))...)
	require.Len(t, n.stands(0).ProducerStates, 1)
	n.later(overrides(0, 39, 3, 40, `, "clear_producer_states": true`), overrides(0, 39, 3, 40, `, "clear_producer_states": true`).logs(0),
		step{"get-producer-state", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": []}]}`, 0})
	require.Empty(t, n.stands(0).ProducerStates)
	n.later(seals(0, 1, 1, 3, 40).item(0, ops.InvalidRequest))  // the leader's own seal is no longer the one
	n.later(seals(0, -1, 1, 3, 39).item(0, ops.InvalidRequest)) // and the operator's is nobody's
}
