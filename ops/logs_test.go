package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func TestAdvanceCrossTierLogStart(t *testing.T) {
	advance := func(offsets []int, entries int, want ...int) step {
		var requests, answers []string
		for i := range offsets {
			requests = append(requests, fmt.Sprintf(`{"topic_id": "@a", "partition": 0, "remote_log_start_offset": %d}`, offsets[i]))
			answers = append(answers, fmt.Sprintf(`{"topic_id": "@a", "partition": 0, "error": "NONE", "remote_log_start_offset": %d}`, want[i]))
		}
		return step{"advance-cross-tier-log-start", `{"requests": [` + strings.Join(requests, ",") + `]}`, `{"responses": [` + strings.Join(answers, ",") + `]}`, entries}
	}
	play(t, rows(2),
		step{"advance-cross-tier-log-start", `{"requests": [{"topic_id": "@a", "partition": 0, "remote_log_start_offset": 1}]}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "UNKNOWN_TOPIC_OR_PARTITION", "remote_log_start_offset": -1}]}`, 0},
		createA,
		advance([]int{0}, 1, 0), // 0 is not "never reported"
		advance([]int{0}, 0, 0),
		advance([]int{7, 3, 5}, 1, 7, 7, 7), // the third, in an entry of its own, would change nothing
		advance([]int{6, 7, 9}, 1, 7, 7, 9),
	)
}

func TestRepairDisklessLog(t *testing.T) {
	repair := func(partition, offset int, code ops.Code, entries int) step {
		return step{"repair-diskless-log", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": %d, "diskless_start_offset": %d}]}`, partition, offset),
			fmt.Sprintf(`{"responses": [{"topic_id": "@a", "partition": %d, "error": %q}]}`, partition, code), entries}
	}
	play(t, ops.DefaultSettings(), createA,
		repair(0, 0, ops.None, 0),
		repair(0, 99, ops.None, 1),
		repair(0, -1, ops.InvalidRequest, 0),
		repair(9, -1, ops.UnknownTopicOrPartition, 0),
		step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}, {"topic_id": "@a", "partition": 9}]}`, `{"responses": [
			{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 0, "high_watermark": 0, "diskless_start_offset": 99, "byte_size": 0, "remote_log_start_offset": -1},
			{"topic_id": "@a", "partition": 9, "error": "UNKNOWN_TOPIC_OR_PARTITION", "log_start_offset": -1, "high_watermark": -1, "diskless_start_offset": -1, "byte_size": -1, "remote_log_start_offset": -1}]}`, 0},
	)
}

func TestInitDisklessLog(t *testing.T) {
	initLog := func(name string, partition, start, seal int, producers string, code ops.Code, entries int) step {
		return step{"init-diskless-log", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "topic_name": %q, "partition": %d, "log_start_offset": %d, "diskless_start_offset": %d, "producer_states": [%s]}]}`,
			name, partition, start, seal, producers), fmt.Sprintf(`{"responses": [{"topic_id": "@a", "partition": %d, "error": %q}]}`, partition, code), entries}
	}
	producer := func(id, epoch, base int) string {
		return fmt.Sprintf(`{"producer_id": %d, "producer_epoch": %d, "base_sequence": %d, "last_sequence": %d, "assigned_offset": 1, "batch_max_timestamp": 2}`, id, epoch, base, base+9)
	}
	states := func(entries ...string) step {
		return step{"get-producer-state", `{"requests": [{"topic_id": "@a", "partition": 0}]}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": [` + strings.Join(entries, ",") + `]}]}`, 0}
	}
	many := make([]string, 7)
	for i := range many {
		many[i] = producer(4, 1, 10*i)
	}
	play(t, ops.DefaultSettings(),
		initLog("a/", 0, 0, 0, "", ops.InvalidRequest, 0),
		initLog("a", 0, 6, 5, "", ops.InvalidRequest, 0),
		initLog("a", 0, -1, 5, "", ops.InvalidRequest, 0),
		initLog("a", 10000, 0, 5, "", ops.InvalidRequest, 0),
		initLog("a", 0, 0, 0, producer(9, 0, 0), ops.None, 1), // a placeholder
		initLog("a", 0, 0, 0, "", ops.AlreadyInitialized, 0),
		initLog("b", 0, 0, 5, "", ops.InvalidRequest, 0),
		step{"advance-cross-tier-log-start", `{"requests": [{"topic_id": "@a", "partition": 0, "remote_log_start_offset": 2}]}`, "", 1},
		initLog("a", 0, 3, 20, strings.Join(append(many, producer(4, 0, 5), producer(5, 0, 0), producer(5, 2, 0)), ","), ops.None, 1),
		states(append(many[2:], producer(5, 2, 0))...),
		initLog("a", 0, 3, 30, "", ops.AlreadyInitialized, 0),
		step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [
			{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 3, "high_watermark": 20, "diskless_start_offset": 20, "byte_size": 0, "remote_log_start_offset": 2}]}`, 0},
		commit("k", sequenced(batch(0, 1), 4, 1, 70)).wants(committed(accepted(20, 1120, 3))),
		step{"create-topics", `{"topics": [{"topic_id": "@b", "topic_name": "b", "num_partitions": 1}]}`, "", 1},
		deleteA,
		initLog("a", 1, 0, 5, "", ops.UnknownTopicOrPartition, 0),
		step{"init-diskless-log", `{"requests": [{"topic_id": "@c", "topic_name": "b", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 5}]}`,
			`{"responses": [{"topic_id": "@c", "partition": 0, "error": "TOPIC_ALREADY_EXISTS"}]}`, 0},
	)
}

// An answer holds a bounded number of entries over all its partitions.
func TestGetProducerStateStops(t *testing.T) {
	n := play(t, ops.DefaultSettings(), createA, commit("k", sequenced(batch(0, 1), 1, 0, 0), sequenced(batch(0, 1), 1, 0, 10), sequenced(batch(1, 1), 2, 0, 0), sequenced(batch(1, 1), 3, 0, 0)))
	n.settings.Limits.AnswerRows = 3
	entry := func(id, base int) string {
		return fmt.Sprintf(`{"producer_id": %d, "producer_epoch": 0, "base_sequence": %d, "last_sequence": %d, "assigned_offset": %d, "batch_max_timestamp": 1}`, id, base, base+9, base)
	}
	n.play(2000, step{"get-producer-state", `{"requests": [{"topic_id": "@a", "partition": 0}, {"topic_id": "@a", "partition": 1}, {"topic_id": "@a", "partition": 0}]}`, `{"responses": [
		{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": [` + entry(1, 0) + `, ` + entry(1, 10) + `]},
		{"topic_id": "@a", "partition": 1, "error": "NONE", "entries": [` + entry(2, 0) + `]},
		{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": []}]}`, 0})
}
