package ops

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescribeNamesEveryField(t *testing.T) {
	seen := map[string]string{}
	for _, cmd := range sampleCommands() {
		text, err := json.Marshal(Describe(cmd))
		require.NoError(t, err)
		seen[cmd.Op()] = string(text)
	}
	require.Equal(t, `{}`, seen["checkpoint-digest"])
	require.Equal(t, `{"level":300}`, seen["raise-feature-level"])
	require.Equal(t, `{"id":"0a000000-0000-0000-0000-000000000001"}`, seen["delete-topics"])
	require.JSONEq(t, `{"idle_before": 1700000000000, "producers": [{"log_id": 1, "producer_id": 2}, {"log_id": 18446744073709551615, "producer_id": -3}]}`, seen["expire-producers"])
	require.JSONEq(t, `{"max_partitions": 10000, "topic": {"topic_id": "0a000000-0000-0000-0000-000000000001", "topic_name": "a", "first_partition": 1,
		"num_partitions": 4, "config": {"retention.ms": "5", "cleanup.policy": "delete"}}}`, seen["create-topics"])
	require.Contains(t, seen["commit-file"], `"coalesce":true`)
	require.Contains(t, seen["commit-file"], `"replay_retention_ms":86400000`)
	require.Contains(t, seen["commit-file"], `"producer_id":7`)
	require.NotContains(t, seen["commit-file"], "digest")
	require.Contains(t, seen["purge-deleted-logs"], `"deleted_at":1700000000000`)
}
