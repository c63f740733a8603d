package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// A refused request names the field, and nothing is read or logged.
func TestRefusedRequests(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.Limits.Items, settings.Limits.Batches, settings.Limits.ProducerRows, settings.Limits.ObjectKey = 2, 2, 2, 10
	n := newNode(t, settings)
	three := func(item string) string { return strings.Repeat(item+",", 2) + item }
	log := `"topic_id": "@a", "partition": 0`
	batch := `{"topic_id": "@a", "partition": 0, "byte_offset": 0, "byte_size": %d, "base_offset": %d, "last_offset": %d, "batch_max_timestamp": 1}`
	good := fmt.Sprintf(batch, 1, 0, 0)
	commit := func(key, batches string) string {
		return fmt.Sprintf(`{"object_key": %q, "uploader_broker_id": 1, "file_size": 1, "batches": [%s]}`, key, batches)
	}
	topic := `{"topic_id": "@a", "topic_name": "a", "num_partitions": 1, "config": {%s}}`
	initLog := `{` + log + `, "topic_name": "a", "log_start_offset": 0, "diskless_start_offset": 0, "producer_states": [%s]}`
	producer := `{"producer_id": 1, "producer_epoch": 1, "base_sequence": 0, "last_sequence": 0, "assigned_offset": 1, "batch_max_timestamp": 2}`
	for _, c := range []struct{ op, request, want string }{
		{"commit-file", commit("", good), "INVALID_REQUEST: object_key: must be 1 to 10 bytes"},
		{"commit-file", commit("kkkkkkkkkkk", good), "INVALID_REQUEST: object_key: must be 1 to 10 bytes"},
		{"commit-file", commit("k", three(good)), "REQUEST_TOO_LARGE: batches: 3 elements, at most 2"},
		{"commit-file", commit("k", good+","+fmt.Sprintf(batch, 0, 0, 0)), "INVALID_REQUEST: batches[1].byte_size: must be > 0"},
		{"commit-file", commit("k", fmt.Sprintf(batch, 1, 5, 4)), "INVALID_REQUEST: batches[0].last_offset: must be >= base_offset"},
		{"commit-file", commit("k", fmt.Sprintf(batch, 1, -5, 9223372036854775807)), "INVALID_REQUEST: batches[0].last_offset: is too far from base_offset"},
		{"commit-file", strings.Replace(commit("k", good), `"partition": 0`, `"partition": -1`, 1), "batches[0].partition: must be >= 0"},
		{"create-topics", `{"topics": [` + fmt.Sprintf(topic, `"x": "1"`) + `]}`, `INVALID_REQUEST: topics[0].config["x"]: unknown config key, known are`},
		{"create-topics", `{"topics": [` + fmt.Sprintf(topic, `"retention.ms": "-2"`) + `]}`, `INVALID_REQUEST: topics[0].config["retention.ms"]: must be an integer >= -1`},
		{"create-topics", `{"topics": [` + fmt.Sprintf(topic, `"diskless.enable": "yes"`) + `]}`, `INVALID_REQUEST: topics[0].config["diskless.enable"]: must be true or false`},
		{"create-topics", `{"topics": [` + fmt.Sprintf(topic, `"cleanup.policy": "delete,"`) + `]}`, `INVALID_REQUEST: topics[0].config["cleanup.policy"]: must be delete, compact or both`},
		{"create-topics", `{"topics": [` + three(fmt.Sprintf(topic, "")) + `]}`, "REQUEST_TOO_LARGE: topics: 3 elements, at most 2"},
		{"find-batches", `{"requests": [` + three(`{`+log+`, "starting_offset": 0, "max_partition_fetch_bytes": 1}`) + `], "fetch_max_bytes": 1}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"list-offsets", `{"requests": [` + three(`{`+log+`, "timestamp": 0}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"delete-records", `{"requests": [` + three(`{`+log+`, "offset": 0}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"delete-topics", `{"topic_ids": [` + three(`"@a"`) + `]}`, "REQUEST_TOO_LARGE: topic_ids: 3"},
		{"get-log-info", `{"requests": [` + three(`{`+log+`}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"get-producer-state", `{"requests": [` + three(`{`+log+`}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"get-cross-tier-log-start", `{"requests": [` + three(`{`+log+`}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"prune-diskless-logs", `{"requests": [` + three(`{`+log+`, "highest_remote_offset": 0}`) + `], "max_batches": 1}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"prune-diskless-logs", `{"requests": []}`, "max_batches: is required"},
		{"prune-diskless-logs", `{"requests": [], "max_batches": -1}`, "max_batches: must be >= 0"},
		{"enforce-retention", `{"requests": [` + three(`{`+log+`, "retention_bytes": 0, "retention_ms": 0}`) + `], "max_batches_per_request": 1}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"purge-deleted-logs", `{"max_batches": -1}`, "max_batches: must be >= 0"},
		{"purge-deleted-logs", `{"max_batchs": 1}`, "max_batchs: unknown field (did you mean max_batches?)"},
		{"delete-files", `{"object_keys": ["a", ""]}`, "INVALID_REQUEST: object_keys[1]: must be 1 to 10 bytes"},
		{"delete-files", `{"object_keys": [` + three(`"a"`) + `]}`, "REQUEST_TOO_LARGE: object_keys: 3"},
		{"is-safe-to-delete-file", `{"object_key": "kkkkkkkkkkk"}`, "INVALID_REQUEST: object_key: must be 1 to 10 bytes"},
		{"advance-cross-tier-log-start", `{"requests": [{` + log + `, "remote_log_start_offset": -1}]}`, "requests[0].remote_log_start_offset: must be >= 0"},
		{"advance-cross-tier-log-start", `{"requests": [` + three(`{`+log+`, "remote_log_start_offset": 1}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"init-diskless-log", `{"requests": [` + three(fmt.Sprintf(initLog, "")) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"init-diskless-log", `{"requests": [` + fmt.Sprintf(initLog, three(producer)) + `]}`, "REQUEST_TOO_LARGE: requests[0].producer_states: 3"},
		{"repair-diskless-log", `{"requests": [` + three(`{`+log+`, "diskless_start_offset": 1}`) + `]}`, "REQUEST_TOO_LARGE: requests: 3"},
		{"expire-producers", `{"idle_before": 1, "after": "1:2x", "max_rows": 0}`, "INVALID_REQUEST: after: is not a position that an answer gave"},
		{"expire-fences", `{"max_rows": -1}`, "max_rows: must be >= 0"},
		{"expire-replays", `{"max_rows": -1}`, "max_rows: must be >= 0"},
		{"get-files-to-delete", `{"marked_before": 1, "limit": -1}`, "limit: must be >= 0"},
		{"list-topics", `{"limit": 10001}`, "INVALID_REQUEST: limit: must be <= 10000"},
		{"list-topics", `{"after": "x"}`, "INVALID_REQUEST: after: is not a position that an answer gave"},
		{"list-files", `{"limit": 10001}`, "INVALID_REQUEST: limit: must be <= 10000"},
		{"list-files", `{"after": "x"}`, "INVALID_REQUEST: after: is not a position that an answer gave"},
		{"list-files", `{"state": "x"}`, "state: must be"},
		{"describe-topic", `{}`, "INVALID_REQUEST: topic_id: exactly one of topic_id and topic_name must be given"},
		{"describe-topic", `{"topic_id": "@a", "topic_name": "a"}`, "INVALID_REQUEST: topic_id: exactly one"},
	} {
		_, err := n.ask(c.op, startMs, []byte(expand(c.request)))
		require.ErrorContains(t, err, c.want, "%s %s", c.op, c.request)
	}
	require.Empty(t, n.log)
}
