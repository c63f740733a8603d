package ops_test

import (
	"fmt"
	"testing"

	"github.com/cpnode/cpnode/ops"
)

func TestCreateTopics(t *testing.T) {
	create := func(fields, want string, entries int) step {
		return step{"create-topics", `{"topics": [{` + fields + `}]}`, `{"topics": [{` + want + `}]}`, entries}
	}
	a := `"topic_id": "@a", "topic_name": "a", `
	refused := func(id, code, why string) string {
		return fmt.Sprintf(`"topic_id": %q, "error": %q, "partitions_created": -1, "message": %q`, id, code, why)
	}
	play(t, ops.DefaultSettings(),
		create(a+`"num_partitions": 2`, `"topic_id": "@a", "error": "NONE", "partitions_created": 2`, 1),
		create(a+`"num_partitions": 2`, `"topic_id": "@a", "error": "NONE", "partitions_created": 0`, 0),
		create(a+`"first_partition": 3, "num_partitions": 5`, `"topic_id": "@a", "error": "NONE", "partitions_created": 2`, 1),
		create(a+`"num_partitions": 6`, `"topic_id": "@a", "error": "NONE", "partitions_created": 2`, 1),
		create(a+`"num_partitions": 0, "config": {"retention.ms": "5"}`, `"topic_id": "@a", "error": "NONE", "partitions_created": 0`, 1),
		create(a+`"num_partitions": 0, "config": {"retention.ms": "5"}`, `"topic_id": "@a", "error": "NONE", "partitions_created": 0`, 0),
		create(a+`"num_partitions": 9, "config": {"diskless.enable": "true"}`, refused("@a", "INVALID_REQUEST", "diskless.enable of an existing topic does not change"), 0),
		create(`"topic_id": "@a", "topic_name": "b", "num_partitions": 9`, refused("@a", "INVALID_REQUEST", "the topic's name is a"), 0),
		create(`"topic_id": "@b", "topic_name": "a", "num_partitions": 9`, refused("@b", "TOPIC_ALREADY_EXISTS", "the name is that of topic @a"), 0),
		create(`"topic_id": "@b", "topic_name": "a/b", "num_partitions": 9`, refused("@b", "INVALID_REQUEST", "the name must be 1 to 249 letters, digits, '.', '_' and '-', and not . or .."), 0),
		create(`"topic_id": "@b", "topic_name": "b", "first_partition": 2, "num_partitions": 1`, refused("@b", "INVALID_REQUEST", "first_partition must be 0 to num_partitions"), 0),
		create(`"topic_id": "@b", "topic_name": "b", "num_partitions": 10001`, refused("@b", "INVALID_REQUEST", "num_partitions must be at most 10000"), 0),
		create(`"topic_id": "@b", "topic_name": "b", "first_partition": 3, "num_partitions": 3`, `"topic_id": "@b", "error": "NONE", "partitions_created": 0`, 0),
		create(`"topic_id": "00000000-0000-0000-0000-000000000000", "topic_name": "b", "num_partitions": 1`, refused("00000000-0000-0000-0000-000000000000", "INVALID_REQUEST", "the zero UUID is not a topic"), 0),
		step{"describe-topic", `{"topic_name": "b"}`, `{"error": "UNKNOWN_TOPIC_OR_PARTITION", "topic_id": "00000000-0000-0000-0000-000000000000", "topic_name": "b", "origin": "", "partitions": -1, "deleted_at": -1, "config": {}, "logs": []}`, 0},
		deleteA,
		create(a+`"num_partitions": 9`, refused("@a", "INVALID_REQUEST", "the topic is being deleted"), 0),
		create(`"topic_id": "@b", "topic_name": "a", "num_partitions": 1`, `"topic_id": "@b", "error": "NONE", "partitions_created": 1`, 1),
	)
}

// One entry a topic: a bad one between two good ones changes nothing for them.
func TestCreateTopicsInTurn(t *testing.T) {
	play(t, ops.DefaultSettings(), step{"create-topics",
		`{"topics": [{"topic_id": "@a", "topic_name": "a", "num_partitions": 1}, {"topic_id": "@b", "topic_name": "a", "num_partitions": 1}, {"topic_id": "@c", "topic_name": "c", "num_partitions": 1}]}`,
		`{"topics": [{"topic_id": "@a", "error": "NONE", "partitions_created": 1}, {"topic_id": "@b", "error": "TOPIC_ALREADY_EXISTS", "partitions_created": -1, "message": "the name is that of topic @a"}, {"topic_id": "@c", "error": "NONE", "partitions_created": 1}]}`, 2})
}
