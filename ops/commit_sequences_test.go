package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// sequence is one batch of one producer with the error it gets.
type sequence struct {
	base, last int32
	want       ops.Code
	duplicate  bool
}

// commitSequences commits each batch in an object of its own.
func commitSequences(t *testing.T, batches []sequence) {
	const id = "965eda32-dae4-4550-8201-e2bd73ab4876"
	n := newNode(t, ops.DefaultSettings())
	_, code := n.do("create-topics", 2000, []byte(`{"topics": [{"topic_id": "`+id+`", "topic_name": "t", "num_partitions": 1}]}`))
	require.Empty(t, code)
	for i, b := range batches {
		answer, code := n.do("commit-file", 2000, fmt.Appendf(nil, `{"object_key": "k%d", "uploader_broker_id": 1, "file_size": 1, "batches": [
			{"topic_id": "`+id+`", "partition": 0, "byte_offset": 0, "byte_size": 1, "base_offset": 0, "last_offset": 0, "batch_max_timestamp": 1,
			 "producer_id": 7, "producer_epoch": 0, "base_sequence": %d, "last_sequence": %d}]}`, i, b.base, b.last))
		require.Empty(t, code)
		require.Contains(t, string(answer), fmt.Sprintf(`"error":%q`, b.want), "batch %d", i)
		require.Contains(t, string(answer), fmt.Sprintf(`"duplicate":%t`, b.duplicate), "batch %d", i)
	}
}

// 0 follows 2147483647, between batches and within one.
func TestSequencesWrap(t *testing.T) {
	commitSequences(t, []sequence{
		{0, 2147483645, ops.None, false},
		{2147483646, 2147483647, ops.None, false},
		{1, 5, ops.OutOfOrderSequence, false},
		{0, 2147483646, ops.None, false},
		{2147483647, 3, ops.None, false}, // wraps within the batch
		{5, 6, ops.OutOfOrderSequence, false},
		{4, 9, ops.None, false},
	})
}

func TestDuplicateHasBothSequences(t *testing.T) {
	commitSequences(t, []sequence{
		{0, 4, ops.None, false},
		{5, 9, ops.None, false},
		{0, 5, ops.OutOfOrderSequence, false},
		{1, 4, ops.OutOfOrderSequence, false},
		{0, 4, ops.None, true},
	})
}
