package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A look at the state makes all that was answered visible first, which costs a
// transaction: the parts of a long drain follow from each other.
func TestDrainLooksAtTheStateOnceNotBeforeEachPart(t *testing.T) {
	prune := `{"requests": [{"topic_id": "@a", "partition": 0, "highest_remote_offset": 99}], "max_batches": 0}`
	retain := `{"requests": [{"topic_id": "@a", "partition": 0, "retention_bytes": 0, "retention_ms": -1}], "max_batches_per_request": 0}`
	for name, drain := range map[string]struct {
		first []step
		drain step
		looks int
	}{
		"prune":     {nil, step{"prune-diskless-logs", prune, "", 5}, 1},
		"retention": {nil, step{"enforce-retention", retain, "", 5}, 1},
		// The log without batches, the end of the first log, and that nothing is left.
		"purge": {[]step{deleteA}, step{"purge-deleted-logs", `{"max_batches": 0}`, "", 7}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, rows(2))
			now := n.play(startMs, createA)
			for i := range 10 {
				now = n.play(now, commit(fmt.Sprint(i), batch(0, now)))
			}
			now = n.play(now, drain.first...)
			n.looks = 0
			n.play(now, drain.drain)
			require.Equal(t, drain.looks, n.looks)
			require.Zero(t, n.meta().Totals.Batches)
		})
	}
}
