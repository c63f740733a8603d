package store_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// cuts puts together what power cuts at random moments leave, and returns what
// could not be recovered. Moments within an install are more frequent than they
// would be.
func cuts(t *testing.T, pinned bool, count int) (failed []error) {
	h, events := makeHistory(), recordLife(t, pinned)
	dir := filepath.Join(t.TempDir(), "cut")
	r := rand.New(rand.NewPCG(*crashSeed, 2))
	t.Logf("seed %d", *crashSeed)
	at := map[int]int{}
	for range count {
		i := past + r.IntN(len(events)-past)
		if r.IntN(3) == 0 {
			for !isStep(events[i]) {
				i = past + r.IntN(len(events)-past)
			}
		}
		at[i]++
	}
	disk := newSimDisk()
	for i, e := range events {
		for range at[i] {
			disk.cut(t, dir, r)
			if err := h.judge(t, filepath.Join(dir, "state.db"), bootOptions("second"), e.durable, e.next, true); err != nil {
				failed = append(failed, err)
				t.Logf("cut before change %d (%s of %s): %v", i, e.Op(), filepath.Base(e.Path()), err)
			}
		}
		disk.do(e)
	}
	return failed
}

// TestPowerCuts loses any of what was written since the last sync. What is recovered
// is what the log said at a sync point, and the log brings the rest.
func TestPowerCuts(t *testing.T) {
	require.Empty(t, cuts(t, true, *powerCuts))
	t.Logf("%d images recovered", *powerCuts)
}

// TestPowerCutsWithoutThePinnedTransaction shows that the test above can fail.
func TestPowerCutsWithoutThePinnedTransaction(t *testing.T) {
	count := max(*powerCuts/3, 20)
	failed := cuts(t, false, count)
	t.Logf("%d of %d images not recovered", len(failed), count)
	require.NotEmpty(t, failed)
}
