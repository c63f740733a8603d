package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

func TestDeleteRecords(t *testing.T) {
	del := func(offset int, want string, entries int) step {
		return step{"delete-records", fmt.Sprintf(`{"requests": [{"topic_id": "@a", "partition": 0, "offset": %d}]}`, offset),
			`{"responses": [{"topic_id": "@a", "partition": 0, ` + want + `}]}`, entries}
	}
	play(t, ops.DefaultSettings(),
		del(0, `"error": "UNKNOWN_TOPIC_OR_PARTITION", "log_start_offset": -1`, 0),
		createA,
		del(-1, `"error": "NONE", "log_start_offset": 0`, 0),
		commit("k", batch(0, 1), batch(0, 2), batch(0, 3)),
		del(-2, `"error": "OFFSET_OUT_OF_RANGE", "log_start_offset": -1`, 0),
		del(31, `"error": "OFFSET_OUT_OF_RANGE", "log_start_offset": -1`, 0),
		del(3, `"error": "NONE", "log_start_offset": 3`, 1),
		step{"get-log-info", `{"requests": [{"topic_id": "@a", "partition": 0}]}`,
			`{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "log_start_offset": 3, "high_watermark": 30, "diskless_start_offset": 0, "byte_size": 300, "remote_log_start_offset": -1}]}`, 0},
		del(2, `"error": "NONE", "log_start_offset": 3`, 0),
		del(10, `"error": "NONE", "log_start_offset": 10`, 1),
		del(-1, `"error": "NONE", "log_start_offset": 30`, 1),
		step{"get-files-to-delete", `{"marked_before": 2000}`, `{"files": [{"object_key": "k", "marked_for_deletion_at": 1100, "size": 5000}]}`, 0},
	)
}

// Each entry but the last moves the log start to the next kept batch.
func TestDeleteRecordsInParts(t *testing.T) {
	n := play(t, rows(2), createA, commit("k", batch(0, 1), batch(0, 2), batch(0, 3), batch(0, 4)))
	w := &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{
		{TopicID: topicID(t, "@a"), Partition: 0, Offset: 25}, {TopicID: topicID(t, "@a"), Partition: 1, Offset: 0}}}
	var starts []int64
	out, err := ops.Run(w, n.settings, n.store.View, func() int64 { return 2000 }, func(cmd ops.Command) (any, error) {
		result, err := n.propose(cmd, 2000)
		starts = append(starts, n.logOf(t, "@a", 0).LogStartOffset)
		return result, err
	})
	require.NoError(t, err)
	require.Equal(t, []int64{10, 25}, starts)
	require.Equal(t, ops.Outcome{Parts: 2, Answer: &ops.DeleteRecordsResponse{Responses: []ops.DeletedRecords{
		{TopicID: topicID(t, "@a"), Partition: 0, Error: ops.None, LogStartOffset: 25},
		{TopicID: topicID(t, "@a"), Partition: 1, Error: ops.None, LogStartOffset: 0}}}, FromRead: true}, out)
}

// -1 is the high watermark at the first entry, also when commits go on.
func TestDeleteRecordsToAMovingEnd(t *testing.T) {
	n := play(t, rows(2), createA, commit("k", batch(0, 1), batch(0, 2), batch(0, 3)))
	w := &ops.DeleteRecordsRequest{Requests: []ops.DeleteRecords{{TopicID: topicID(t, "@a"), Offset: -1}}}
	out, err := ops.Run(w, n.settings, n.store.View, func() int64 { return 2000 }, func(cmd ops.Command) (any, error) {
		result, err := n.propose(cmd, 2000)
		n.play(2000, commit(fmt.Sprint(len(n.log)), batch(0, 9)))
		return result, err
	})
	require.NoError(t, err)
	require.Equal(t, int64(30), out.Answer.(*ops.DeleteRecordsResponse).Responses[0].LogStartOffset)
	require.Equal(t, int64(60), n.logOf(t, "@a", 0).HighWatermark)
}

func topicID(t *testing.T, text string) store.TopicID {
	id, err := store.ParseTopicID(expand(text))
	require.NoError(t, err)
	return id
}

func (n *node) logOf(t *testing.T, topic string, partition int32) (l store.Log) {
	require.NoError(t, n.store.View(func(tx *store.ReadTx) (err error) {
		l, _, err = tx.Log(store.LogKey{Topic: topicID(t, topic), Partition: partition})
		return err
	}))
	return l
}
