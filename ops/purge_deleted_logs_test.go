package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func purge(maxBatches int, want string, entries int) step {
	return step{"purge-deleted-logs", fmt.Sprintf(`{"max_batches": %d}`, maxBatches), want, entries}
}

const nothingPurged = `{"batches_deleted": 0, "logs_purged": 0, "files_marked": 0, "more_remain": false, "cap_reached": false}`

func TestPurgeDeletedLogs(t *testing.T) {
	other := step{"create-topics", `{"topics": [{"topic_id": "@b", "topic_name": "b", "num_partitions": 2}]}`, "", 1}
	play(t, ops.DefaultSettings(), createA, other,
		commit("k1", batch(0, 1), batch(0, 2)), commit("k2", batch(0, 3), batch(1, 4)),
		purge(0, nothingPurged, 0),
		deleteA,
		step{"delete-topics", `{"topic_ids": ["@b"]}`, "", 1},
		// The window is the two logs of @a, both with batches.
		purge(2, `{"batches_deleted": 2, "logs_purged": 0, "files_marked": 1, "more_remain": true, "cap_reached": true}`, 1),
		purge(1, `{"batches_deleted": 1, "logs_purged": 1, "files_marked": 0, "more_remain": true, "cap_reached": true}`, 1),
		step{"list-topics", `{}`, `{"topics": [
			{"topic_id": "@a", "topic_name": "a", "origin": "diskless", "partitions": 1, "deleted_at": 1050, "config": {}},
			{"topic_id": "@b", "topic_name": "b", "origin": "diskless", "partitions": 2, "deleted_at": 1060, "config": {}}], "next": ""}`, 0},
		// The empty logs of @b go first; they do not spend the budget.
		purge(3, `{"batches_deleted": 1, "logs_purged": 3, "files_marked": 1, "more_remain": false, "cap_reached": false}`, 2),
		purge(3, nothingPurged, 0),
		step{"list-topics", `{}`, `{"topics": [], "next": ""}`, 0},
		step{"get-files-to-delete", `{"marked_before": 9000}`, `{"files": [
			{"object_key": "k1", "marked_for_deletion_at": 1070, "size": 5000},
			{"object_key": "k2", "marked_for_deletion_at": 1100, "size": 5000}]}`, 0},
	)
}

// The window bounds the empty logs of a pass.
func TestPurgeWindowOfEmptyLogs(t *testing.T) {
	play(t, ops.DefaultSettings(),
		step{"create-topics", `{"topics": [{"topic_id": "@a", "topic_name": "a", "num_partitions": 5}]}`, "", 1},
		deleteA,
		purge(3, `{"batches_deleted": 0, "logs_purged": 3, "files_marked": 0, "more_remain": true, "cap_reached": true}`, 1),
		purge(0, `{"batches_deleted": 0, "logs_purged": 2, "files_marked": 0, "more_remain": false, "cap_reached": false}`, 1),
	)
}

// A log is emptied of batches and producers by small entries, and no entry
// takes more rows than it may.
func TestPurgeInParts(t *testing.T) {
	fill := []step{createA}
	for i := range 7 {
		fill = append(fill, commit(fmt.Sprint("k", i), sequenced(batch(0, 1), i, 0, 0)))
	}
	n := play(t, rows(3), append(fill, deleteA)...)
	// 1: partition 1. 2 to 4: batches 3, 3, 1 and two producers. 5: three. 6: two and the log.
	n.removed = 0
	n.play(2000, purge(7, `{"batches_deleted": 7, "logs_purged": 2, "files_marked": 7, "more_remain": false, "cap_reached": false}`, 6))
	require.LessOrEqual(t, n.removed, int64(3))
	require.Zero(t, n.meta().Totals.ProducerStates)
	require.Zero(t, n.meta().Totals.DeletedLogs)
}

// A purge that was cut off goes on where it stopped, and all files end marked.
func TestPurgeResumes(t *testing.T) {
	n := play(t, rows(1), createA, commit("k", batch(0, 1), batch(0, 2), batch(0, 3)), deleteA)
	stop := ops.Errorf(ops.NoLeader, "stopped")
	parts := 0
	_, err := ops.Run(&ops.PurgeDeletedLogsRequest{}, n.settings, n.store.View, func() int64 { return 2000 }, func(cmd ops.Command) (any, error) {
		if parts++; parts == 3 {
			return nil, stop
		}
		return n.propose(cmd, 2000)
	})
	require.ErrorIs(t, err, &ops.Error{Code: ops.OutcomeUnknown})
	n.reopen()
	n.play(2000, purge(0, `{"batches_deleted": 2, "logs_purged": 1, "files_marked": 1, "more_remain": false, "cap_reached": false}`, 3))
}
