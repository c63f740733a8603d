package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

var (
	firstSeed = flag.Uint64("sim.seed", 1, "first seed")
	seeds     = flag.Int("sim.seeds", 4, "how many seeds")
)

func TestMain(m *testing.M) {
	store.ChildMain()
	os.Exit(m.Run())
}

// tempDir is in memory where that can be had.
func tempDir(t *testing.T) string {
	t.Helper()
	base := ""
	if _, err := os.Stat("/dev/shm"); err == nil {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "cpnode-sim-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// TestSeeds is a slice of what `make sim` runs.
func TestSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates minutes")
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := Run(t, Generate(seed), tempDir(t), false)
			require.Empty(t, r.Failures, "to run it again: go run ./jepsen/sim/run --seed %d\n%s", seed, strings.Join(r.Diary, "\n"))
			require.NotEmpty(t, r.Faults)
			require.Greater(t, r.Simulated, Length/2)
			for _, name := range []string{"commit-file", "find-batches", "delete-records", "delete-topics", "prune-diskless-logs", "commit-seal"} {
				require.Positive(t, r.Operations[name], name)
			}
		})
	}
}

// A seed says the same each time, and all kinds of faults come.
func TestScenarios(t *testing.T) {
	kinds := map[Kind]bool{}
	for seed := range uint64(100) {
		s := Generate(seed)
		require.Equal(t, s, Generate(seed))
		for i, f := range s.Faults {
			kinds[f.Kind] = true
			require.Less(t, f.At, Length)
			require.Positive(t, f.For)
			require.NotEqual(t, f.Node, f.To, f.String())
			require.Equal(t, []Fault{f}, s.Only([]int{i}).Faults)
		}
	}
	require.Len(t, kinds, len(weights))
}
