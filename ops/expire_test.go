package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/ops"
)

func removed(op, request string, n int, next string, entries int) step {
	return step{op, request, fmt.Sprintf(`{"removed": %d, "next": %q}`, n, next), entries}
}

func TestExpireProducers(t *testing.T) {
	expire := func(idleBefore int, after string, maxRows, want int, next string, entries int) step {
		return removed("expire-producers", fmt.Sprintf(`{"idle_before": %d, "after": %q, "max_rows": %d}`, idleBefore, after, maxRows), want, next, entries)
	}
	steps := []step{createA}
	for i := range 6 { // producers 0 to 5 of partition 0 at 1010 to 1060
		steps = append(steps, commit(fmt.Sprint(i), sequenced(batch(0, 1), i, 0, 0)))
	}
	n := play(t, rows(2), steps...)
	n.play(2000,
		expire(1010, "", 0, 0, "", 0),
		expire(1030, "", 1, 1, "1:0", 1),
		expire(1030, "1:0", 1, 1, "1:1", 1),
		expire(1030, "1:1", 1, 0, "", 0),
		expire(1060, "", 0, 3, "", 2),
		step{"get-producer-state", `{"requests": [{"topic_id": "@a", "partition": 0}]}`, `{"responses": [{"topic_id": "@a", "partition": 0, "error": "NONE", "entries": [
			{"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "last_sequence": 9, "assigned_offset": 50, "batch_max_timestamp": 1}]}]}`, 0},
		// A forgotten producer must begin at 0 again.
		commit("x", sequenced(batch(0, 1), 0, 0, 10)).wants(committed(refused(ops.OutOfOrderSequence))),
		commit("y", sequenced(batch(0, 1), 0, 0, 0)).wants(committed(accepted(60, 2070, 0))),
	)
}

// One request looks at a bounded number of producers and says where to go on.
func TestExpireProducersLooksAtABound(t *testing.T) {
	n := play(t, ops.DefaultSettings(), createA,
		commit("0", sequenced(batch(0, 1), 0, 0, 0)), commit("1", sequenced(batch(0, 1), 1, 0, 0)), commit("2", sequenced(batch(0, 1), 2, 0, 0)))
	n.settings.Limits.AnswerRows = 2
	n.play(2000,
		removed("expire-producers", `{"idle_before": 5, "max_rows": 0}`, 0, "1:1", 0),
		removed("expire-producers", `{"idle_before": 9000, "max_rows": 0, "after": "1:1"}`, 1, "", 1))
}

func TestExpireFences(t *testing.T) {
	settings := rows(2)
	settings.ObjectFenceRetentionMs = 100
	n := newNode(t, settings)
	n.play(startMs, isSafe("a", true, "true", 1), isSafe("b", true, "true", 1), isSafe("c", true, "true", 1), isSafe("d", true, "true", 1)) // to 1100, 1110, 1120, 1130
	n.play(1099, removed("expire-fences", `{"max_rows": 0}`, 0, "", 0))
	n.play(1100, removed("expire-fences", `{"max_rows": 0}`, 1, "", 1))
	n.play(1200, removed("expire-fences", `{"max_rows": 1}`, 1, "", 1), removed("expire-fences", `{"max_rows": 0}`, 2, "", 1), removed("expire-fences", `{"max_rows": 0}`, 0, "", 0))
}

func TestExpireReplays(t *testing.T) {
	settings := rows(2)
	settings.ReplayRetentionMs = 100
	n := newNode(t, settings)
	n.play(startMs, commit("a", batch(0, 1)), commit("b", batch(0, 1)), commit("c", batch(0, 1)), commit("d", batch(0, 1))) // 1000 to 1030
	n.play(1100, removed("expire-replays", `{"max_rows": 0}`, 0, "", 0))
	n.play(1101, removed("expire-replays", `{"max_rows": 0}`, 1, "", 1))
	n.play(1140, removed("expire-replays", `{"max_rows": 0}`, 3, "", 2))
	require.Zero(t, n.meta().Totals.Replays)
	n.play(1150, commit("a", batch(0, 1)).wants("OBJECT_KEY_CONFLICT").logs(0))
}

// A producer that wrote between the look and the entry stays.
func TestExpireProducersRaces(t *testing.T) {
	n := play(t, ops.DefaultSettings(), createA, commit("0", sequenced(batch(0, 1), 0, 0, 0)), commit("1", sequenced(batch(0, 1), 1, 0, 0)))
	out, err := ops.Run(&ops.ExpireProducersRequest{IdleBefore: 2000}, n.settings, n.store.View, func() int64 { return 2000 }, func(cmd ops.Command) (any, error) {
		n.play(2000, commit("2", sequenced(batch(0, 1), 0, 0, 10)))
		return n.propose(cmd, 2001)
	})
	require.NoError(t, err)
	require.Equal(t, &ops.ExpireProducersResponse{Removed: 1}, out.Answer)
}

// When the proposer's clock stepped back before its entry, what the entry's clock
// still fences or replays stays.
func TestExpireGoesByTheEntrysClock(t *testing.T) {
	settings := ops.DefaultSettings()
	settings.ObjectFenceRetentionMs, settings.ReplayRetentionMs = 100, 100
	n := play(t, settings, isSafe("a", true, "true", 1), commit("b", batch(0, 1)))
	for _, w := range []ops.Write{&ops.ExpireFencesRequest{}, &ops.ExpireReplaysRequest{}} {
		_, err := ops.Run(w, n.settings, n.store.View, func() int64 { return 5000 }, func(cmd ops.Command) (any, error) { return n.propose(cmd, 1050) })
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), n.meta().Totals.Fences)
	require.Equal(t, int64(1), n.meta().Totals.Replays)
	require.Equal(t, int64(1010), n.meta().LastClockMs)
}
