package store_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/crashdisk"
	"github.com/cpnode/cpnode/store"
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
	disk := crashdisk.New(nil)
	for i, e := range events {
		for range at[i] {
			write(t, dir, disk.Cut(r))
			if err := h.judge(t, filepath.Join(dir, "state.db"), bootOptions("second"), e.durable, e.next, true); err != nil {
				failed = append(failed, err)
				t.Logf("cut before change %d (%s of %s): %v", i, e.Op, filepath.Base(e.Path), err)
			}
		}
		disk.Do(e.Change)
	}
	return failed
}

// TestCrashInAnInstall kills and cuts the power before every change of an install and
// those around it, of each of the latter several times.
func TestCrashInAnInstall(t *testing.T) {
	h, events := makeHistory(), recordLife(t, true)
	begin := slices.IndexFunc(events, func(e event) bool { return e.Op == store.OpCreate && filepath.Base(e.Path) == "state.db.install" })
	rename := slices.IndexFunc(events, func(e event) bool { return e.Op == store.OpRename })
	require.Less(t, begin, rename)
	dir := filepath.Join(t.TempDir(), "crashed")
	r := rand.New(rand.NewPCG(*crashSeed, 3))
	disk, images, after := crashdisk.New(nil), 0, map[uint64]int{}
	for i, e := range events[:rename+20] {
		cuts := 0
		switch {
		case i > rename-8:
			cuts = max(*powerCuts/15, 4)
		case i >= begin && (*crashAll || i%10 == 0):
			cuts = 1
		}
		for n := range cuts {
			boot := "second"
			if n == 0 {
				boot = "first"
				write(t, dir, disk.Killed())
			} else {
				write(t, dir, disk.Cut(r))
			}
			path := filepath.Join(dir, "state.db")
			err := h.judge(t, path, bootOptions(boot), e.durable, e.next, false)
			require.NoError(t, err, "before change %d, %d after the rename: %s of %s", i, i-rename, e.Op, filepath.Base(e.Path))
			require.NoFileExists(t, path+".install")
			images++
			s, err := store.Open(path, bootOptions(boot))
			require.NoError(t, err)
			after[headOf(t, s).AppliedIndex]++
			require.NoError(t, s.Close())
		}
		disk.Do(e.Change)
	}
	t.Logf("%d changes from the first byte to the rename, %d images; index + 3: images %v", rename-begin, images, after)
	require.Greater(t, len(after), 1, "some have the old state, some the new one")
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

// A disk that forgets what it said was durable leaves pages of several states that are
// whole, each by itself, and lead to each other: such a file was taken for a state.
func TestDiskThatLiesIsFoundOut(t *testing.T) {
	h, events := makeHistory(), recordLife(t, true)
	dir := filepath.Join(t.TempDir(), "lied")
	path := filepath.Join(dir, "state.db")
	r := rand.New(rand.NewPCG(*crashSeed, 4))
	refused, opened := 0, 0
	for range *powerCuts {
		disk := crashdisk.New(nil)
		from := past + r.IntN(len(events)-past)
		for _, e := range events[:from+r.IntN(len(events)-from)] {
			if from--; from > 0 || e.Op != store.OpSync {
				disk.Do(e.Change)
			}
		}
		write(t, dir, disk.Cut(r))
		s, err := store.Open(path, bootOptions("second"))
		if err != nil {
			require.ErrorIs(t, err, store.ErrCorrupt)
			refused++
			continue
		}
		opened++
		require.NoError(t, s.View(func(tx *store.ReadTx) error {
			digest, err := store.DigestOf(tx)
			require.Equal(t, h.digests[tx.Meta().AppliedIndex], digest, "the state at entry %d", tx.Meta().AppliedIndex)
			return err
		}))
		require.NoError(t, s.Close())
		report, err := store.Check(path)
		require.NoError(t, err)
		require.Empty(t, report.Problems, "what the digest does not cover")
	}
	t.Logf("%d images refused, %d opened", refused, opened)
	require.Positive(t, refused)
	require.Positive(t, opened)
}
