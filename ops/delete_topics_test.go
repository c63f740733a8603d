package ops_test

import (
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func TestDeleteTopics(t *testing.T) {
	deleted := func(ids, want string, entries int) step {
		return step{"delete-topics", `{"topic_ids": [` + ids + `]}`, `{"logs_deleted": ` + want + `}`, entries}
	}
	info := step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}]}`,
		`{"responses": [{"topic_id": "@a", "partition": 0, "error": "UNKNOWN_TOPIC_OR_PARTITION", "log_start_offset": -1, "high_watermark": -1, "diskless_start_offset": -1, "byte_size": -1, "remote_log_start_offset": -1}]}`, 0}
	play(t, ops.DefaultSettings(), createA,
		step{"create-topics", `{"topics": [{"topic_id": "@b", "topic_name": "b", "num_partitions": 3}]}`, "", 1},
		deleted(`"@c"`, "0", 0),
		deleted(`"@a", "@b", "@a"`, "5", 2),
		info,
		deleted(`"@a"`, "0", 0),
		deleted(``, "0", 0),
	)
}
