package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func retain(bytes, ms, maxBatches int, want string, entries int) step {
	return step{"enforce-retention", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": 0, "retention_bytes": %d, "retention_ms": %d}], "max_batches_per_request": %d}`, bytes, ms, maxBatches),
		`{"responses": [{"topic_id": "@a", "partition": 0, ` + want + `}]}`, entries}
}

func TestEnforceRetention(t *testing.T) {
	play(t, ops.DefaultSettings(),
		retain(1, 1, 0, `"error": "UNKNOWN_TOPIC_OR_PARTITION", "batches_deleted": -1, "bytes_deleted": -1, "log_start_offset": -1`, 0),
		createA,
		commit("k", batch(0, 500), batch(0, 600), batch(0, 1000), batch(0, 700), batch(0, 800)), // clock 1020, 500 bytes
		retain(-1, -1, 0, `"error": "NONE", "batches_deleted": 0, "bytes_deleted": 0, "log_start_offset": 0`, 0),
		retain(500, 540, 0, `"error": "NONE", "batches_deleted": 0, "bytes_deleted": 0, "log_start_offset": 0`, 0), // 1040 - 540 = 500
		retain(-1, 549, 0, `"error": "NONE", "batches_deleted": 1, "bytes_deleted": 100, "log_start_offset": 10`, 1),
		retain(300, -1, 0, `"error": "NONE", "batches_deleted": 1, "bytes_deleted": 100, "log_start_offset": 20`, 1),
		retain(-1, 100, 0, `"error": "NONE", "batches_deleted": 0, "bytes_deleted": 0, "log_start_offset": 20`, 0), // 1000 at the head keeps older ones
		retain(0, -1, 2, `"error": "NONE", "batches_deleted": 2, "bytes_deleted": 200, "log_start_offset": 40`, 1),
		retain(0, -1, 0, `"error": "NONE", "batches_deleted": 1, "bytes_deleted": 100, "log_start_offset": 50`, 1),
		retain(0, 0, 0, `"error": "NONE", "batches_deleted": 0, "bytes_deleted": 0, "log_start_offset": 50`, 0),
	)
}

// The parts go by the clock of the first: what ages while they run stays.
func TestRetentionKeepsItsCutOff(t *testing.T) {
	n := play(t, rows(1), createA, commit("k", batch(0, 500), batch(0, 600), batch(0, 700), batch(1, 600), batch(1, 700)))
	w := &ops.EnforceRetentionRequest{Requests: []ops.EnforceRetention{
		{TopicID: topicID(t, "@a"), RetentionBytes: -1, RetentionMs: 1350},
		{TopicID: topicID(t, "@a"), Partition: 1, RetentionBytes: -1, RetentionMs: 1350}}}
	nowMs := int64(2000)
	out, err := ops.Run(w, n.settings, n.store.View, func() int64 { return nowMs }, func(cmd ops.Command) (any, error) {
		nowMs += 1000
		return n.propose(cmd, nowMs)
	})
	require.NoError(t, err)
	require.Equal(t, 3, out.Parts)
	require.Equal(t, &ops.EnforceRetentionResponse{Responses: []ops.EnforcedRetention{
		{TopicID: topicID(t, "@a"), Error: ops.None, BatchesDeleted: 2, BytesDeleted: 200, LogStartOffset: 20},
		{TopicID: topicID(t, "@a"), Partition: 1, Error: ops.None, BatchesDeleted: 1, BytesDeleted: 100, LogStartOffset: 10}}}, out.Answer)
}
