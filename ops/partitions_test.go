package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestRegisterPartitions(t *testing.T) {
	register := func(fields string, want string, entries int) step {
		return step{"register-partitions", `{"topic_id": "@a", "topic_name": "a", ` + fields + `}`, want, entries}
	}
	none := `{"error": "NONE"}`
	refused := func(why string) string { return `{"error": "INVALID_REQUEST", "message": "` + why + `"}` }
	n := play(t, ops.DefaultSettings(), append(liveBrokers(2),
		register(`"partitions": []`, none, 0), // nothing is known of the topic, and nothing kept
		step{"describe-topic", `{"topic_id": "@a"}`, "", 0},
		register(`"partitions": [{"partition": 0, "replicas": [3, 2, 1]}]`, none, 1),
		register(`"partitions": [{"partition": 0, "replicas": [3, 2, 1]}]`, none, 0),
		register(`"partitions": [{"partition": 4, "replicas": [3]}, {"partition": 0, "replicas": [3, 2, 1]}]`, none, 1),
		register(`"partitions": [{"partition": 0, "replicas": [2, 3, 1]}, {"partition": 5, "replicas": [1]}]`, refused("partition 0: has the replicas [3 2 1]"), 0),
		register(`"partitions": [{"partition": 5, "replicas": []}]`, refused("partition 5: has no replicas, or one twice"), 0),
		register(`"partitions": [{"partition": 5, "replicas": [1, 1]}]`, refused("partition 5: has no replicas, or one twice"), 0),
		register(`"partitions": [{"partition": 5, "replicas": [1]}, {"partition": 5, "replicas": [1]}]`, refused("partition 5: is named twice, or not below 10000"), 0),
		register(`"partitions": [{"partition": 10000, "replicas": [1]}]`, refused("partition 10000: is named twice, or not below 10000"), 0),
		register(`"partitions": [], "diskless": true`, refused("the topic's origin is classic"), 0),
		step{"register-partitions", `{"topic_id": "@a", "topic_name": "b", "partitions": []}`, refused("the topic's name is a"), 0},
		step{"register-partitions", `{"topic_id": "@b", "topic_name": "a", "partitions": [{"partition": 0, "replicas": [1]}]}`, `{"error": "TOPIC_ALREADY_EXISTS", "message": "no new topic can have this id and name"}`, 0},
		register(`"partitions": [], "config": {"retention.ms": "5"}`, none, 1),
		register(`"partitions": [], "config": {"retention.ms": "5"}`, none, 0),
		register(`"partitions": [], "config": {"diskless.enable": "true"}`, refused("diskless.enable of an existing topic does not change"), 0),
		step{"repair-diskless-log", `{"requests": [{"topic_id": "@a", "partition": 0, "diskless_start_offset": 3}]}`, "", 0}.item(0, ops.InvalidRequest), // its log has not begun
		step{"create-topics", `{"topics": [{"topic_id": "@a", "topic_name": "a", "num_partitions": 1}]}`, `{"topics": [{"topic_id": "@a", "error": "INVALID_REQUEST", "partitions_created": -1, "message": "the topic's origin is classic"}]}`, 0},
		step{"init-diskless-log", `{"requests": [{"topic_id": "@a", "topic_name": "a", "partition": 9, "log_start_offset": 0, "diskless_start_offset": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 9, "error": "INVALID_REQUEST"}]}`, 0},
		step{"list-topics", `{}`, `{"topics": [{"topic_id": "@a", "topic_name": "a", "origin": "classic", "partitions": 2, "deleted_at": -1, "config": {"retention.ms": "5"}}], "next": ""}`, 0},
	)...)
	n.is(0, ops.StateClassic, 2, 0, 0, 2, 1)
	n.is(4, ops.StateClassic, -1, 0, 0)
	require.Equal(t, ops.UnknownTopicOrPartition, n.stands(5).Error)
	n.later(deleteA.wants(`{"logs_deleted": 0}`))
	require.Equal(t, ops.UnknownTopicID, n.stands(0).Error)
}

// With diskless, the logs are made too; what create-topics made stays.
func TestRegisterDisklessPartitions(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(1), createA, commit("wal/1", batch(0, 5)),
		partitions(3, "1, 2", "", `"diskless": true`),
		step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}, {"topic_id": "@a", "partition": 2}]}`, `{"responses": [
			{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 0, "high_watermark": 10, "diskless_start_offset": 0, "byte_size": 100, "remote_log_start_offset": -1},
			{"topic_id": "@a", "partition": 2, "error": "NONE", "log_start_offset": 0, "high_watermark": 0, "diskless_start_offset": 0, "byte_size": 0, "remote_log_start_offset": -1}]}`, 0},
		step{"repair-diskless-log", `{"requests": [{"topic_id": "@a", "partition": 0, "diskless_start_offset": 3}]}`, "", 0}.item(0, ops.InvalidRequest),
		step{"init-diskless-log", `{"requests": [{"topic_id": "@a", "topic_name": "a", "partition": 2, "log_start_offset": 0, "diskless_start_offset": 5}]}`, "", 0}.item(2, ops.InvalidRequest),
		step{"begin-switch", `{"topic_id": "@a"}`, `{"error": "INVALID_REQUEST", "message": "the topic was born diskless"}`, 0},
	)...)
	n.is(0, ops.StateBornDiskless, 1, 0, 0, 1)
	n.later(deleteA.wants(`{"logs_deleted": 3}`))
	require.Equal(t, ops.UnknownTopicID, n.stands(0).Error)
}

func TestAlterPartition(t *testing.T) {
	both := member(1) + "," + member(2)
	steps := append(liveBrokers(4), partitions(1, "1, 2, 3", ""), fences(3), fences(4))
	n := play(t, ops.DefaultSettings(), append(steps,
		alters(9, 1, 0, 1, both).refused(ops.UnknownTopicOrPartition),
		step{"alter-partition", `{"topic_id": "@b", "partition": 0, "broker_id": 1, "leader_epoch": 0, "partition_epoch": 1, "new_isr": []}`, `{"error": "UNKNOWN_TOPIC_ID"}`, 0},
		alters(0, 1, -1, 1, both).refused(ops.FencedLeaderEpoch),
		alters(0, 1, 1, 1, both).refused(ops.NotController),
		alters(0, 2, 0, 1, both).refused(ops.InvalidRequest),
		alters(0, -1, 0, 1, both).refused(ops.InvalidRequest),
		alters(0, 1, 0, 0, both).refused(ops.InvalidUpdateVersion),
		alters(0, 1, 0, 1, both+","+member(3)).refused(ops.IneligibleReplica),                               // fenced
		alters(0, 1, 0, 1, both+","+member(4)).refused(ops.IneligibleReplica),                               // no replica, and fenced
		alters(0, 1, 0, 1, both+","+member(-1)).refused(ops.IneligibleReplica),                              // no broker
		alters(0, 1, 0, 1, member(1)+`,{"broker_id": 2, "broker_epoch": 1}`).refused(ops.IneligibleReplica), // stale
		alters(0, 1, 0, 1, member(2)).refused(ops.InvalidRequest),
		alters(0, 1, 0, 1, "").refused(ops.InvalidRequest),
		alters(0, 1, 0, 1, both+","+member(2)).refused(ops.InvalidRequest),
		alters(0, 1, 0, 1, both).logs(0),
		alters(0, 1, 0, 1, member(1)),
		unfences(4), unfences(3),
		alters(0, 1, 0, 2, member(1)+","+member(4)).refused(ops.IneligibleReplica), // no replica
		alters(0, 1, 0, 2, member(3)+","+member(1)),
	)...)
	n.is(0, ops.StateClassic, 1, 0, 3, 1, 3)
}

// The ISR of a diskless partition is every live replica: no leader has a say in it.
func TestAlterDisklessPartition(t *testing.T) {
	play(t, ops.DefaultSettings(), append(liveBrokers(2), partitions(1, "1, 2", "", `"diskless": true`),
		alters(0, 1, 0, 0, member(1)).refused(ops.InvalidRequest))...)
}

func TestElectPreferredLeader(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(2), partitions(1, "2, 1", ""),
		elects(0, "preferred").refused(ops.ElectionNotNeeded), elects(9, "preferred").refused(ops.UnknownTopicOrPartition),
		fences(2), elects(0, "preferred").refused(ops.PreferredLeaderNotAvailable), // fenced
		unfences(2), elects(0, "preferred").refused(ops.PreferredLeaderNotAvailable), // not in the ISR
		alters(0, 1, 1, 1, member(1)+","+member(2)), elects(0, "preferred"),
	)...)
	n.is(0, ops.StateClassic, 2, 2, 3, 2, 1)
}

func TestElectUncleanLeader(t *testing.T) {
	lone := []step{elects(0, "unclean").refused(ops.ElectionNotNeeded), fences(1), fences(2), unfences(1)}
	for config, want := range map[string]ops.Code{
		``: ops.EligibleLeadersNotAvailable, `"unclean.leader.election.enable": "false"`: ops.EligibleLeadersNotAvailable,
		`"unclean.leader.election.enable": "true"`: ops.None,
	} {
		n := play(t, ops.DefaultSettings(), append(append(liveBrokers(2), partitions(1, "1, 2", config)), lone...)...)
		n.is(0, ops.StateClassic, -1, 2, 2, 2)
		if want != ops.None {
			n.later(elects(0, "unclean").refused(want))
			continue
		}
		n.later(elects(0, "unclean"))
		n.is(0, ops.StateClassic, 1, 3, 3, 1)
		n.later(fences(1), elects(0, "unclean").refused(ops.EligibleLeadersNotAvailable))
	}
}

// Half-way through an unfence, a partition that was not visited has no leader, and a member
// of its ISR lives: that one leads, and not a replica that may lack records.
func TestUncleanElectionPrefersALiveMemberOfTheISR(t *testing.T) {
	n := newNode(t, rows(2))
	n.play(startMs, append(liveBrokers(2), partitions(9, "2, 1", `"unclean.leader.election.enable": "true"`),
		fences(2).logs(5), fences(1).logs(5), unfences(2).logs(5))...)
	n.interrupted(&ops.UnfenceBrokerRequest{BrokerID: 1}, 1)
	n.is(8, ops.StateClassic, -1, 2, 2, 1)
	n.later(elects(8, "unclean"))
	n.is(8, ops.StateClassic, 1, 3, 3, 1)
}

// What clients are told of goes by where the prefix is.
func TestAdvertisedReplicas(t *testing.T) {
	n := play(t, ops.DefaultSettings(), append(liveBrokers(4), partitions(1, "3, 1, 2", tiered),
		alters(0, 3, 0, 0, member(3)+","+member(1)))...)
	advertised := func() []int32 { return n.stands(0).AdvertisedReplicas }
	require.Equal(t, []int32{3, 1}, advertised())
	n.later(alters(0, 3, 0, 1, member(3)+","+member(1)+","+member(2)), beginA, fences(1))
	require.Equal(t, []int32{3, 2}, advertised())
	n.later(fences(2), fences(3), unfences(2))
	require.Empty(t, advertised(), "the one that is left is not in the ISR")
	n.later(unfences(3), seals(0, 3, 3, 0, 0), flags(0, 3, 3, 0, -1))
	require.Equal(t, []int32{3, 2}, advertised())
	n.is(0, ops.StatePrefixInRemoteStorage, 3, 4, 9, 3, 2)
	n.later(unfences(1), fences(3))
	require.Equal(t, []int32{1, 2}, advertised())

	for config, want := range map[string][]int32{tiered: {3, 1}, ``: {1, 3, 4}} {
		n = play(t, ops.DefaultSettings(), append(liveBrokers(4), partitions(1, "3, 1, 2", config, `"diskless": true`), fences(2))...)
		require.Equal(t, want, advertised())
	}
}
