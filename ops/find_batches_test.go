package ops_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

// found is the number of batches and the error that each partition of a request
// answered.
func (n *node) found(request string) (batches []int, codes []ops.Code) {
	answer, code := n.do("find-batches", startMs, []byte(expand(request)))
	require.Empty(n.t, string(code))
	var a ops.FindBatchesResponse
	require.NoError(n.t, json.Unmarshal(answer, &a))
	for _, r := range a.Responses {
		batches, codes = append(batches, len(r.Batches)), append(codes, r.Error)
	}
	return batches, codes
}

func TestFindBatchesBudgets(t *testing.T) {
	n := play(t, ops.DefaultSettings(), createA,
		commit("k", batch(0, 1), batch(0, 2), batch(0, 3), batch(1, 4), batch(1, 5))) // 100 bytes each
	two := func(max0, max1, all, perPartition int) string {
		return fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": 0, "starting_offset": 0, "max_partition_fetch_bytes": %d},
			{"topic_id": "@a", "partition": 1, "starting_offset": 0, "max_partition_fetch_bytes": %d}], "fetch_max_bytes": %d, "max_batches_per_partition": %d}`, max0, max1, all, perPartition)
	}
	for _, c := range []struct {
		request string
		want    []int
	}{
		{two(1000, 1000, 1000, 0), []int{3, 2}},
		{two(1000, 1000, 1000, 1), []int{1, 1}},
		{two(100, 100, 1000, 0), []int{1, 1}},
		{two(101, 1000, 1000, 0), []int{2, 2}},
		{two(1000, 1000, 300, 0), []int{3, 0}},
		{two(1000, 1000, 301, 0), []int{3, 1}}, // the crossing batch is included
		{two(1000, 1000, 0, 0), []int{1, 0}},   // the first of the request, always
		{two(0, 0, 1000, 0), []int{1, 0}},
	} {
		batches, _ := n.found(c.request)
		require.Equal(t, c.want, batches, c.request)
	}
	n.settings.Limits.AnswerRows = 4
	batches, _ := n.found(two(1000, 1000, 1000, 0))
	require.Equal(t, []int{3, 1}, batches)
}

func TestFindBatchesOffsets(t *testing.T) {
	n := play(t, ops.DefaultSettings(), createA, commit("k", batch(0, 1), batch(0, 2), batch(0, 3)),
		step{"delete-records", `{"requests": [{"topic_id": "@a", "partition": 0, "offset": 13}]}`, "", 1})
	from := func(partition, offset int) string {
		return fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": %d, "starting_offset": %d, "max_partition_fetch_bytes": 1000}], "fetch_max_bytes": 1000}`, partition, offset)
	}
	for _, c := range []struct {
		request string
		batches int
		code    ops.Code
	}{
		{from(0, 12), 0, ops.OffsetOutOfRange},
		{from(0, 13), 2, ops.None}, // the batch that straddles the log start, whole
		{from(0, 19), 2, ops.None},
		{from(0, 20), 1, ops.None},
		{from(0, 30), 0, ops.None},
		{from(0, 31), 0, ops.OffsetOutOfRange},
		{from(0, -1), 0, ops.OffsetOutOfRange},
		{from(1, 0), 0, ops.None},
		{from(2, 0), 0, ops.UnknownTopicOrPartition},
	} {
		batches, codes := n.found(c.request)
		require.Equal(t, c.batches, batches[0], c.request)
		require.Equal(t, c.code, codes[0], c.request)
	}
}
