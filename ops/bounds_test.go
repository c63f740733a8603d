package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

const boundsTopic = "965eda32-dae4-4550-8201-e2bd73ab4876"

func TestConfigValuesHaveOneForm(t *testing.T) {
	n := newNode(t, ops.DefaultSettings())
	create := func(key, value string) ops.Code {
		_, code := n.do("create-topics", 2000, fmt.Appendf(nil, `{"topics": [{"topic_id": %q, "topic_name": "t", "num_partitions": 1, "config": {%q: %q}}]}`, boundsTopic, key, value))
		return code
	}
	for _, c := range [][2]string{
		{"retention.ms", "+5"}, {"retention.ms", "05"}, {"retention.bytes", strings.Repeat("0", 1000) + "1"}, {"retention.ms", "-0"},
		{"cleanup.policy", "delete,delete"}, {"cleanup.policy", strings.Repeat("delete,", 1000) + "delete"}, {"cleanup.policy", ""},
	} {
		require.Equal(t, ops.InvalidRequest, create(c[0], c[1]), "%s=%.40s", c[0], c[1])
	}
	for _, c := range [][2]string{{"retention.ms", "-1"}, {"retention.bytes", "0"}, {"cleanup.policy", "compact,delete"}} {
		require.Empty(t, create(c[0], c[1]), "%s=%s", c[0], c[1])
	}
}

func TestNegativeBudgetsAndIdsAreRefused(t *testing.T) {
	n := newNode(t, ops.DefaultSettings())
	for _, c := range [][2]string{
		{"find-batches", `{"requests": [], "fetch_max_bytes": -1}`},
		{"find-batches", `{"requests": [{"topic_id": "` + boundsTopic + `", "partition": 0, "starting_offset": 0, "max_partition_fetch_bytes": -1}], "fetch_max_bytes": 1}`},
		{"init-diskless-log", `{"requests": [{"topic_id": "` + boundsTopic + `", "topic_name": "t", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 5, "producer_states": [
			{"producer_id": -5, "producer_epoch": 0, "base_sequence": 0, "last_sequence": 1, "assigned_offset": 0, "batch_max_timestamp": 0}]}]}`},
	} {
		_, code := n.do(c[0], 2000, []byte(c[1]))
		require.Equal(t, ops.InvalidRequest, code, c[1])
	}
}

// Keys may be as long as object.key.max.bytes allows: the cleaner must not be refused for ever.
func TestEntriesOfLongKeysAreSplit(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.Limits.ObjectKey = 16 << 10
	n := newNode(t, settings)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("%q", fmt.Sprintf("%s%d", strings.Repeat("k", 16_000), i)))
		_, code := n.do("commit-file", 2000, fmt.Appendf(nil, `{"object_key": %s, "uploader_broker_id": 1, "file_size": 1, "batches": [
			{"topic_id": %q, "partition": 0, "byte_offset": 0, "byte_size": 1, "base_offset": 0, "last_offset": 0, "batch_max_timestamp": 1}]}`, keys[i], boundsTopic))
		require.Empty(t, code)
	}
	answer, code := n.do("delete-files", 2000, []byte(`{"object_keys": [`+strings.Join(keys, ",")+`]}`))
	require.Empty(t, code)
	require.Equal(t, 100, strings.Count(string(answer), `"NONE"`))
	require.Zero(t, n.meta().Totals.FilesDeleting)
	for _, entry := range n.log {
		require.Less(t, len(entry), ops.DefaultLimits().EntryBytes)
	}
}

// Names that no topic can have fill an entry by their bytes, not by their number.
func TestEntriesOfLongNamesAreSplit(t *testing.T) {
	n := newNode(t, ops.DefaultSettings())
	items := []string{`{"topic_id": "` + boundsTopic + `", "topic_name": "t", "partition": 0, "log_start_offset": 0, "diskless_start_offset": 0}`}
	for range 400 {
		items = append(items, `{"topic_id": "`+boundsTopic+`", "topic_name": "`+strings.Repeat("x", 5000)+`", "partition": 1, "log_start_offset": 0, "diskless_start_offset": 0}`)
	}
	answer, code := n.do("init-diskless-log", 2000, []byte(`{"requests": [`+strings.Join(items, ",")+`]}`))
	require.Empty(t, code)
	require.Equal(t, 400, strings.Count(string(answer), `"INVALID_REQUEST"`))
	for _, entry := range n.log {
		require.Less(t, len(entry), ops.DefaultLimits().EntryBytes)
	}
}
