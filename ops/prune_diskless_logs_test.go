package ops_test

import (
	"fmt"
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func prune(highest, maxBatches int, want string, entries int) step {
	return step{"prune-diskless-logs", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": 0, "highest_remote_offset": %d}], "max_batches": %d}`, highest, maxBatches),
		`{"responses": [{"topic_id": "@a", "partition": 0, ` + want + `}]}`, entries}
}

func TestPruneDisklessLogs(t *testing.T) {
	play(t, ops.DefaultSettings(),
		prune(5, 0, `"error": "UNKNOWN_TOPIC_OR_PARTITION", "log_start_offset": -1, "batches_deleted": -1, "bytes_deleted": -1, "more_remain": false`, 0),
		createA,
		prune(-1, 0, `"error": "NONE", "log_start_offset": 0, "batches_deleted": 0, "bytes_deleted": 0, "more_remain": false`, 0),
		commit("k", batch(0, 1), batch(0, 2), batch(0, 3), batch(0, 4)),
		prune(8, 0, `"error": "NONE", "log_start_offset": 0, "batches_deleted": 0, "bytes_deleted": 0, "more_remain": false`, 0), // it straddles
		prune(29, 2, `"error": "NONE", "log_start_offset": 20, "batches_deleted": 2, "bytes_deleted": 200, "more_remain": true`, 1),
		step{"get-cross-tier-log-start", `{"requests": [{"topic_id": "@a", "partition": 0}]}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "remote_log_start_offset": 0}]}`, 0},
		prune(29, 1, `"error": "NONE", "log_start_offset": 30, "batches_deleted": 1, "bytes_deleted": 100, "more_remain": false`, 1),
		prune(100, 0, `"error": "NONE", "log_start_offset": 40, "batches_deleted": 1, "bytes_deleted": 100, "more_remain": false`, 1),
		prune(100, 0, `"error": "NONE", "log_start_offset": 40, "batches_deleted": 0, "bytes_deleted": 0, "more_remain": false`, 0),
	)
}

// The parts of a prune keep to the cap of the request and answer as one.
func TestPruneInParts(t *testing.T) {
	n := play(t, rows(1), createA,
		commit("k", batch(0, 1), batch(0, 2), batch(0, 3), batch(0, 4)),
		prune(39, 3, `"error": "NONE", "log_start_offset": 30, "batches_deleted": 3, "bytes_deleted": 300, "more_remain": true`, 3))
	n.play(2000, step{"get-cross-tier-log-start", `{"requests": [{"topic_id": "@a", "partition": 0}]}`,
		`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "remote_log_start_offset": 0}]}`, 0})
}

// An empty switched log advances to its seal.
func TestPruneEmptySwitchedLog(t *testing.T) {
	play(t, ops.DefaultSettings(),
		step{"init-diskless-log", `{"requests": [{"topic_id": "@a", "topic_name": "a", "partition": 0, "log_start_offset": 5, "diskless_start_offset": 20}]}`, "", 1},
		prune(9, 0, `"error": "NONE", "log_start_offset": 10, "batches_deleted": 0, "bytes_deleted": 0, "more_remain": false`, 1),
		prune(30, 0, `"error": "NONE", "log_start_offset": 20, "batches_deleted": 0, "bytes_deleted": 0, "more_remain": false`, 1),
		step{"get-cross-tier-log-start", `{"requests": [{"topic_id": "@a", "partition": 0}]}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "remote_log_start_offset": 5}]}`, 0},
	)
}
