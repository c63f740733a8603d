package main

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/sim"
	"github.com/cpnode/cpnode/jepsen/sim/exact"
	"github.com/cpnode/cpnode/store"
)

func TestMain(m *testing.M) {
	store.ChildMain()
	if len(os.Args) > 1 && os.Args[1] == childArg {
		if err := child(os.Args[2:]); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestShrinking(t *testing.T) {
	runs := 0
	s := shrinking{tries: 100, times: 2, fails: func(keep []int) bool {
		runs++
		return slices.Contains(keep, 3) && slices.Contains(keep, 11)
	}}
	all := make([]int, 20)
	for i := range all {
		all[i] = i
	}
	require.Equal(t, []int{3, 11}, s.run(all))
	require.Equal(t, 100, runs+s.tries)
	s = shrinking{tries: 3, times: 1, fails: func(keep []int) bool { return len(keep) > 0 }}
	require.NotEmpty(t, s.run(all))
	require.Zero(t, s.tries)
}

// A seed without faults holds, and the command says how much that was.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates a minute")
	}
	var out bytes.Buffer
	require.NoError(t, command(t.Context(), []string{"--seed", "7", "--keep", none}, &out), out.String())
	require.Contains(t, out.String(), "seeds 7 to 7: 1 runs")
	require.Contains(t, out.String(), "verdict: no violation")
	require.Error(t, command(t.Context(), []string{"--keep", "x"}, &out))
	require.Error(t, command(t.Context(), []string{"more"}, &out))
}

// A run that takes too long fails, and shows what its goroutines were at.
func TestLimit(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // of the stacks
	var out bytes.Buffer
	require.ErrorContains(t, command(t.Context(), []string{"--seed", "7", "--limit", "500ms", "--tries", "0"}, &out), "1 of 1 runs do not hold")
	require.Contains(t, out.String(), "SIGQUIT")
	require.Contains(t, out.String(), "goroutine ")
}

// Runs of a seed with all of its faults are the same, and the command says so.
func TestExact(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compiles the standard library, and simulates minutes")
	}
	var out bytes.Buffer
	err := command(t.Context(), []string{"--exact", "--seed", "6", "--times", "2"}, &out)
	if errors.Is(err, exact.ErrToolchain) {
		t.Skip(err)
	}
	require.NoError(t, err, out.String())
	require.Contains(t, out.String(), "2 runs")
	require.Contains(t, out.String(), "1 of 1 seeds had one trace in all their runs")
}

// A seed with two traces is an error.
func TestTraces(t *testing.T) {
	var out bytes.Buffer
	r := runner{out: &out, traces: map[uint64]string{}, differ: map[uint64]bool{}}
	for _, trace := range []string{"a", "a", "b", "b"} {
		r.compare(try{seed: 1}, &sim.Result{Trace: trace})
		r.compare(try{seed: 2}, &sim.Result{Trace: "c"})
	}
	require.Equal(t, map[uint64]bool{1: true}, r.differ)
	require.Contains(t, out.String(), "seed 1: trace b")
}

func TestLists(t *testing.T) {
	for _, want := range [][]int{{}, {4}, {0, 17, 3}} {
		got, err := numbers(list(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := numbers("")
	require.NoError(t, err)
	require.Nil(t, got)
}
