package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestClockNeverGoesBack(t *testing.T) {
	const id = "965eda32-dae4-4550-8201-e2bd73ab4876"
	n := newNode(t, ops.DefaultSettings())
	_, code := n.do("create-topics", 2000, []byte(`{"topics": [{"topic_id": "`+id+`", "topic_name": "t", "num_partitions": 1}]}`))
	require.Empty(t, code)
	for i, c := range []struct{ proposed, applied int64 }{{1000, 2000}, {2500, 2500}, {2499, 2500}} {
		answer, code := n.do("commit-file", c.proposed, fmt.Appendf(nil, `{"object_key": "k%d", "uploader_broker_id": 1, "file_size": 1, "batches": [
			{"topic_id": "`+id+`", "partition": 0, "byte_offset": 0, "byte_size": 1, "base_offset": 0, "last_offset": 0, "batch_max_timestamp": 1}]}`, i))
		require.Empty(t, code)
		require.Contains(t, string(answer), fmt.Sprintf(`"log_append_time":%d`, c.applied))
		require.Equal(t, c.applied, n.meta().LastClockMs)
	}
}
