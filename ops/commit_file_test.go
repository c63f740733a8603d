package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// accepted and refused are answers to one batch of partition 0 of @a.
func accepted(offset, appendTime, logStart int64) string {
	return fmt.Sprintf(`{"topic_id": "@a", "partition": 0, "error": "NONE", "assigned_base_offset": %d, "log_append_time": %d, "log_start_offset": %d, "duplicate": false}`, offset, appendTime, logStart)
}

func duplicate(offset, timestamp, logStart int64) string {
	return strings.Replace(accepted(offset, timestamp, logStart), "false", "true", 1)
}

func refused(code ops.Code) string {
	return fmt.Sprintf(`{"topic_id": "@a", "partition": 0, "error": %q, "assigned_base_offset": -1, "log_append_time": -1, "log_start_offset": -1, "duplicate": false}`, code)
}

func committed(batches ...string) string {
	return `{"batches": [` + strings.Join(batches, ",") + `], "replayed": false}`
}

func replayed(batches ...string) string {
	return `{"batches": [` + strings.Join(batches, ",") + `], "replayed": true}`
}

// An epoch bump needs base 0; a lower epoch is refused; a refused batch leaves
// no trace.
func TestCommitEpochs(t *testing.T) {
	play(t, ops.DefaultSettings(), createA, // the commits are at 1010, 1020, ...
		commit("1", sequenced(batch(0, 5), 7, 3, 0)).wants(committed(accepted(0, 1010, 0))),
		commit("2", sequenced(batch(0, 5), 7, 4, 10)).wants(committed(refused(ops.OutOfOrderSequence))),
		commit("3", sequenced(batch(0, 5), 7, 2, 0)).wants(committed(refused(ops.InvalidProducerEpoch))),
		commit("4", sequenced(batch(0, 5), 7, 3, 10)).wants(committed(accepted(10, 1040, 0))),
		commit("5", sequenced(batch(0, 5), 7, 4, 0)).wants(committed(accepted(20, 1050, 0))),
		commit("6", sequenced(batch(0, 5), 8, 0, 10)).wants(committed(refused(ops.OutOfOrderSequence))), // unknown producer
		step{"get-producer-state", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": [
			{"producer_id": 7, "producer_epoch": 4, "base_sequence": 0, "last_sequence": 9, "assigned_offset": 20, "batch_max_timestamp": 5}]}]}`, 0},
	)
}

// Five batches are remembered: the first is a duplicate until a sixth came.
func TestCommitDuplicates(t *testing.T) {
	steps := []step{createA}
	for i := range 5 {
		steps = append(steps, commit(fmt.Sprint(i), sequenced(batch(0, int64(i)), 7, 0, 10*i)))
	}
	play(t, ops.DefaultSettings(), append(steps,
		commit("again", sequenced(batch(0, 99), 7, 0, 0)).wants(committed(duplicate(0, 0, 0))),
		commit("5", sequenced(batch(0, 5), 7, 0, 50)).wants(committed(accepted(50, 1070, 0))),
		commit("late", sequenced(batch(0, 0), 7, 0, 0)).wants(committed(refused(ops.OutOfOrderSequence))),
		step{"find-batches", `{"requests": [{"topic_id": "@a", "partition": 0, "starting_offset": 60, "max_partition_fetch_bytes": 1}], "fetch_max_bytes": 1}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 0, "high_watermark": 60, "batches": []}]}`, 0},
	)...)
}

// Sequences within one object count, in its order.
func TestCommitSequencesWithinAnObject(t *testing.T) {
	play(t, ops.DefaultSettings(), createA,
		commit("0", sequenced(batch(0, 5), 7, 0, 0)),
		commit("1", sequenced(batch(0, 5), 7, 0, 20), sequenced(batch(0, 5), 7, 0, 10)).wants(committed(refused(ops.OutOfOrderSequence), accepted(10, 1020, 0))),
		commit("2", sequenced(batch(0, 5), 7, 0, 20), sequenced(batch(0, 5), 7, 0, 30)).wants(committed(accepted(20, 1030, 0), accepted(30, 1030, 0))),
	)
}

// An object without an accepted batch is marked at once, one whose batches go later.
func TestCommitMarksUselessObjects(t *testing.T) {
	play(t, ops.DefaultSettings(), createA,
		commit("dup0", sequenced(batch(0, 5), 7, 0, 0)),
		commit("dup1", sequenced(batch(0, 6), 7, 0, 0)).wants(committed(duplicate(0, 5, 0))),
		commit("mixed", sequenced(batch(0, 6), 7, 0, 0), batch(0, 8)).wants(committed(duplicate(0, 5, 0), accepted(10, 1030, 0))),
		step{"get-files-to-delete", `{"marked_before": 9000}`, `{"files": [{"object_key": "dup1", "marked_for_deletion_at": 1020, "size": 5000}]}`, 0},
		step{"delete-records", `{"requests": [{"topic_id": "@a", "partition": 0, "offset": -1}]}`, "", 1},
		step{"get-files-to-delete", `{"marked_before": 9000}`, `{"files": [{"object_key": "dup1", "marked_for_deletion_at": 1020, "size": 5000},
			{"object_key": "dup0", "marked_for_deletion_at": 1050, "size": 5000}, {"object_key": "mixed", "marked_for_deletion_at": 1050, "size": 5000}]}`, 0},
	)
}

// The identical commit is answered as before, whatever happened since, and
// without an entry; another one with its key is a conflict.
func TestCommitReplays(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.ReplayRetentionMs = 1000
	first := committed(duplicate(0, 5, 0), refused(ops.OutOfOrderSequence), accepted(10, 1020, 0))
	again := strings.Replace(first, `"replayed": false`, `"replayed": true`, 1)
	k := commit("k", sequenced(batch(0, 6), 7, 0, 0), sequenced(batch(0, 6), 7, 0, 50), batch(0, 7))
	n := newNode(t, settings)
	n.play(startMs, createA, commit("0", sequenced(batch(0, 5), 7, 0, 0)), k.wants(first), k.wants(again).logs(0),
		step{"delete-records", `{"requests": [{"topic_id": "@a", "partition": 0, "offset": -1}]}`, "", 1}, deleteA, k.wants(again).logs(0),
		commit("k", batch(0, 7)).wants("OBJECT_KEY_CONFLICT").logs(0))
	n.play(2020, k.wants(again).logs(0)) // the last moment
	n.play(2021, k.wants("OBJECT_KEY_CONFLICT").logs(0))
}

func TestCommitOfAnUnknownLogOrOfNothing(t *testing.T) {
	play(t, ops.DefaultSettings(),
		commit("k").wants(`{"batches": [], "replayed": false}`).logs(0),
		commit("k", batch(0, 7)).wants(committed(refused(ops.UnknownTopicOrPartition))),
		commit("k", batch(0, 7)).wants(replayed(refused(ops.UnknownTopicOrPartition))).logs(0),
	)
}

// Touching batches of one log, magic and timestamp type become one row.
func TestCommitCoalesces(t *testing.T) {
	touching := step{"commit-file", `{"object_key": "k", "uploader_broker_id": 1, "file_size": 9, "batches": [
		{"topic_id": "@a", "partition": 0, "byte_offset": 0, "byte_size": 10, "base_offset": 0, "last_offset": 4, "batch_max_timestamp": 9},
		{"topic_id": "@a", "partition": 0, "byte_offset": 10, "byte_size": 5, "base_offset": 3, "last_offset": 3, "batch_max_timestamp": 7},
		{"topic_id": "@a", "partition": 0, "byte_offset": 15, "byte_size": 5, "base_offset": 3, "last_offset": 3, "timestamp_type": 1, "batch_max_timestamp": 7}]}`,
		committed(accepted(0, 1010, 0), accepted(5, 1010, 0), accepted(6, 1010, 0)), 1}
	row := func(id, byteOffset, byteSize, base, last, timestamp, kind int) string {
		return fmt.Sprintf(`{"batch_id": %d, "object_key": "k", "magic": 2, "topic_id": "@a", "topic_name": "a", "partition": 0, "byte_offset": %d, "byte_size": %d,
			"base_offset": %d, "last_offset": %d, "log_append_timestamp": 1010, "batch_max_timestamp": %d, "timestamp_type": %d}`, id, byteOffset, byteSize, base, last, timestamp, kind)
	}
	find := func(batches ...string) step {
		return step{"find-batches", `{"requests": [{"topic_id": "@a", "partition": 0, "starting_offset": 0, "max_partition_fetch_bytes": 1000}], "fetch_max_bytes": 1000}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 0, "high_watermark": 7, "batches": [` + strings.Join(batches, ",") + `]}]}`, 0}
	}
	play(t, ops.DefaultSettings(), createA, touching, find(row(1, 0, 15, 0, 5, 9, 0), row(2, 15, 5, 6, 6, 7, 1)))
	apart := ops.DefaultSettings()
	apart.Coalesce = false
	play(t, apart, createA, touching, find(row(1, 0, 10, 0, 4, 9, 0), row(2, 10, 5, 5, 5, 7, 0), row(3, 15, 5, 6, 6, 7, 1)))
}

// Batches at both ends of what an offset can be do not touch, though their sums wrap.
func TestCommitCoalescesNothingAcrossTheLargestOffset(t *testing.T) {
	play(t, ops.DefaultSettings(), createA, step{"commit-file", `{"object_key": "k", "uploader_broker_id": 1, "file_size": 9, "batches": [
		{"topic_id": "@a", "partition": 0, "byte_offset": 9223372036854775807, "byte_size": 1, "base_offset": 0, "last_offset": 0, "batch_max_timestamp": 9},
		{"topic_id": "@a", "partition": 0, "byte_offset": -9223372036854775808, "byte_size": 1, "base_offset": 0, "last_offset": 0, "batch_max_timestamp": 9}]}`,
		committed(accepted(0, 1010, 0), accepted(1, 1010, 0)), 1},
		step{"list-files", `{}`, `{"files": [{"file_id": 1, "object_key": "k", "format": 1, "reason": "produce", "state": "uploaded", "uploader_broker_id": 1,
			"committed_at": 1010, "marked_for_deletion_at": -1, "size": 9, "batch_count": 2}], "next": ""}`, 0})
}

// Of two commits of one key that were both proposed, the later entry answers as a
// read would have, and leaves no trace, not even of its clock.
func TestCommitRaces(t *testing.T) {
	n := play(t, ops.DefaultSettings(), createA)
	w := &ops.CommitFileRequest{ObjectKey: "k", Batches: []ops.CommitBatch{{TopicID: topicID(t, "@a"), ByteSize: 1}}}
	var before store.Meta
	out, err := ops.Run(w, n.settings, n.store.View, func() int64 { return 2000 }, func(cmd ops.Command) (any, error) {
		_, err := n.propose(cmd, 2000)
		require.NoError(t, err)
		before = n.meta()
		return n.propose(cmd, 3000)
	})
	require.NoError(t, err)
	require.Equal(t, &ops.CommitFileResponse{Replayed: true, Batches: []ops.CommittedBatch{
		{TopicID: topicID(t, "@a"), Error: ops.None, LogAppendTime: 2000}}}, out.Answer)
	require.False(t, out.FromRead)
	before.AppliedIndex++
	require.Equal(t, before, n.meta())
}

// Offsets never pass the largest int64.
func TestCommitAtTheEndOfOffsets(t *testing.T) {
	play(t, ops.DefaultSettings(),
		step{"init-diskless-log", `{"requests": [{"topic_id": "@a", "topic_name": "a", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 9223372036854775797}]}`, "", 1},
		commit("1", batch(0, 7)).wants(committed(accepted(9223372036854775797, 1010, 0))),
		commit("2", batch(0, 7)).wants(committed(refused(ops.InvalidRequest))),
	)
	// A duplicate needs no room.
	play(t, ops.DefaultSettings(),
		step{"init-diskless-log", `{"requests": [{"topic_id": "@a", "topic_name": "a", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 9223372036854775797}]}`, "", 1},
		commit("1", sequenced(batch(0, 6), 7, 0, 0)).wants(committed(accepted(9223372036854775797, 1010, 0))),
		commit("2", sequenced(batch(0, 6), 7, 0, 0)).wants(committed(duplicate(9223372036854775797, 6, 0))),
	)
}
