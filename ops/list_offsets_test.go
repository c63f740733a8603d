package ops_test

import (
	"fmt"
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func TestListOffsets(t *testing.T) {
	list := func(timestamp int, want string) step {
		return step{"list-offsets", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": 0, "timestamp": %d}]}`, timestamp),
			`{"responses": [{"topic_id": "@a", "partition": 0, ` + want + `}]}`, 0}
	}
	play(t, ops.DefaultSettings(),
		list(-1, `"error": "UNKNOWN_TOPIC_OR_PARTITION", "timestamp": -1, "offset": -1`),
		createA,
		list(-3, `"error": "NONE", "timestamp": -1, "offset": -1`),
		commit("k", batch(0, 50), batch(0, 70), batch(0, 60), batch(0, 70)), // offsets 0 to 39
		list(-1, `"error": "NONE", "timestamp": -1, "offset": 40`),
		list(-2, `"error": "NONE", "timestamp": -1, "offset": 0`),
		list(-3, `"error": "NONE", "timestamp": 70, "offset": 19`),
		list(-4, `"error": "NONE", "timestamp": -1, "offset": 0`),
		list(-5, `"error": "NONE", "timestamp": -1, "offset": -1`),
		list(-6, `"error": "UNSUPPORTED_VERSION", "timestamp": -1, "offset": -1`),
		list(0, `"error": "NONE", "timestamp": 50, "offset": 0`),
		list(51, `"error": "NONE", "timestamp": 70, "offset": 10`),
		list(71, `"error": "NONE", "timestamp": -1, "offset": -1`),
		step{"delete-records", `{"requests": [{"topic_id": "@a", "partition": 0, "offset": 15}]}`, "", 1},
		list(51, `"error": "NONE", "timestamp": 70, "offset": 15`), // inside the batch that straddles the log start
		list(-2, `"error": "NONE", "timestamp": -1, "offset": 15`),
		step{"advance-cross-tier-log-start", `{"requests": [{"topic_id": "@a", "partition": 0, "remote_log_start_offset": 4}]}`, "", 1},
		list(-2, `"error": "NONE", "timestamp": -1, "offset": 4`),
		list(-4, `"error": "NONE", "timestamp": -1, "offset": 15`),
	)
}
