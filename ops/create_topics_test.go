package ops_test

import (
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func TestCreateTopics(t *testing.T) {
	create := func(fields, want string, entries int) step {
		return step{"create-topics", `{"topics": [{` + fields + `}]}`, `{"topics": [{` + want + `}]}`, entries}
	}
	a := `"topic_id": "@a", "topic_name": "a", `
	play(t, ops.DefaultSettings(),
		create(a+`"num_partitions": 2`, `"topic_id": "@a", "error": "NONE", "partitions_created": 2`, 1),
		create(a+`"num_partitions": 2`, `"topic_id": "@a", "error": "NONE", "partitions_created": 0`, 0),
		create(a+`"first_partition": 3, "num_partitions": 5`, `"topic_id": "@a", "error": "NONE", "partitions_created": 2`, 1),
		create(a+`"num_partitions": 6`, `"topic_id": "@a", "error": "NONE", "partitions_created": 2`, 1),
		create(a+`"num_partitions": 0, "config": {"retention.ms": "5"}`, `"topic_id": "@a", "error": "NONE", "partitions_created": 0`, 1),
		create(a+`"num_partitions": 0, "config": {"retention.ms": "5"}`, `"topic_id": "@a", "error": "NONE", "partitions_created": 0`, 0),
		create(a+`"num_partitions": 9, "config": {"diskless.enable": "true"}`, `"topic_id": "@a", "error": "INVALID_REQUEST", "partitions_created": -1`, 0),
		create(`"topic_id": "@a", "topic_name": "b", "num_partitions": 9`, `"topic_id": "@a", "error": "INVALID_REQUEST", "partitions_created": -1`, 0),
		create(`"topic_id": "@b", "topic_name": "a", "num_partitions": 9`, `"topic_id": "@b", "error": "TOPIC_ALREADY_EXISTS", "partitions_created": -1`, 0),
		create(`"topic_id": "@b", "topic_name": "a/b", "num_partitions": 9`, `"topic_id": "@b", "error": "INVALID_REQUEST", "partitions_created": -1`, 0),
		create(`"topic_id": "@b", "topic_name": "b", "first_partition": 2, "num_partitions": 1`, `"topic_id": "@b", "error": "INVALID_REQUEST", "partitions_created": -1`, 0),
		create(`"topic_id": "@b", "topic_name": "b", "num_partitions": 10001`, `"topic_id": "@b", "error": "INVALID_REQUEST", "partitions_created": -1`, 0),
		create(`"topic_id": "@b", "topic_name": "b", "first_partition": 3, "num_partitions": 3`, `"topic_id": "@b", "error": "NONE", "partitions_created": 0`, 0),
		step{"describe-topic", `{"topic_name": "b"}`, `{"error": "UNKNOWN_TOPIC_OR_PARTITION", "topic_id": "00000000-0000-0000-0000-000000000000", "topic_name": "b", "origin": "", "partitions": -1, "deleted_at": -1, "config": {}, "logs": []}`, 0},
		deleteA,
		create(a+`"num_partitions": 9`, `"topic_id": "@a", "error": "INVALID_REQUEST", "partitions_created": -1`, 0),
		create(`"topic_id": "@b", "topic_name": "a", "num_partitions": 1`, `"topic_id": "@b", "error": "NONE", "partitions_created": 1`, 1),
	)
}

// One entry a topic: a bad one between two good ones changes nothing for them.
func TestCreateTopicsInTurn(t *testing.T) {
	play(t, ops.DefaultSettings(), step{"create-topics",
		`{"topics": [{"topic_id": "@a", "topic_name": "a", "num_partitions": 1}, {"topic_id": "@b", "topic_name": "a", "num_partitions": 1}, {"topic_id": "@c", "topic_name": "c", "num_partitions": 1}]}`,
		`{"topics": [{"topic_id": "@a", "error": "NONE", "partitions_created": 1}, {"topic_id": "@b", "error": "TOPIC_ALREADY_EXISTS", "partitions_created": -1}, {"topic_id": "@c", "error": "NONE", "partitions_created": 1}]}`, 2})
}
