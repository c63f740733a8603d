package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func TestListTopics(t *testing.T) {
	row := func(id string, partitions, deletedAt int, config string) string {
		return fmt.Sprintf(`{"topic_id": "@%s", "topic_name": "%s", "origin": "diskless", "partitions": %d, "deleted_at": %d, "config": {%s}}`, id, id, partitions, deletedAt, config)
	}
	list := func(request, next string, topics ...string) step {
		return step{"list-topics", request, fmt.Sprintf(`{"topics": [%s], "next": %q}`, strings.Join(topics, ","), next), 0}
	}
	a, b := row("a", 2, 1020, ""), row("b", 1, -1, `"cleanup.policy": "compact,delete"`)
	n := play(t, ops.DefaultSettings(), createA,
		step{"create-topics", `{"topics": [{"topic_id": "@b", "topic_name": "b", "num_partitions": 1, "config": {"cleanup.policy": "compact,delete"}}]}`, "", 1},
		deleteA,
		list(`{}`, "", a, b),
		list(`{"limit": 1}`, "@a", a),
		list(`{"limit": 1, "after": "@a"}`, "", b),
		list(`{"limit": 0, "after": "@b"}`, ""),
	)
	// What asks for no limit, or for a common one, is not refused where pages are shorter.
	n.settings.Limits.ListedMaximum = 1
	n.play(startMs, list(`{}`, "@a", a), list(`{"limit": 1000}`, "@a", a), list(`{"limit": 0}`, "", a, b))
	require.ErrorContains(t, (&ops.ListTopicsRequest{Limit: 1001}).Validate(n.settings.Limits), "limit: must be <= 1000")
}

func TestDescribeTopic(t *testing.T) {
	log := func(partition, highWatermark, size int) string {
		return fmt.Sprintf(`{"topic_id": "@a", "partition": %d, "error": "NONE", "log_start_offset": 0, "high_watermark": %d, "diskless_start_offset": 0, "byte_size": %d, "remote_log_start_offset": -1}`, partition, highWatermark, size)
	}
	topic := `"error": "NONE", "topic_id": "@a", "topic_name": "a", "origin": "diskless", "partitions": 2, "config": {}, `
	live := `{` + topic + `"deleted_at": -1, "logs": [` + log(0, 10, 100) + `, ` + log(1, 0, 0) + `]}`
	gone := `{"topic_id": "@a", "partition": %d, "error": "UNKNOWN_TOPIC_OR_PARTITION", "log_start_offset": -1, "high_watermark": -1, "diskless_start_offset": -1, "byte_size": -1, "remote_log_start_offset": -1}`
	missing := `{"error": "UNKNOWN_TOPIC_OR_PARTITION", "topic_id": %q, "topic_name": %q, "origin": "", "partitions": -1, "deleted_at": -1, "config": {}, "logs": []}`
	play(t, ops.DefaultSettings(), createA, commit("k", batch(0, 1)),
		step{"describe-topic", `{"topic_id": "@a"}`, live, 0},
		step{"describe-topic", `{"topic_name": "a"}`, live, 0},
		step{"describe-topic", `{"topic_id": "@b"}`, fmt.Sprintf(missing, "@b", ""), 0},
		deleteA, // 1050
		step{"describe-topic", `{"topic_id": "@a"}`, `{` + topic + `"deleted_at": 1050, "logs": [` + fmt.Sprintf(gone, 0) + `, ` + fmt.Sprintf(gone, 1) + `]}`, 0},
		step{"describe-topic", `{"topic_name": "a"}`, fmt.Sprintf(missing, "00000000-0000-0000-0000-000000000000", "a"), 0},
	)
}
