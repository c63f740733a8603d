package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/report"
)

func TestAll(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds the binary and runs three processes")
	}
	var out strings.Builder
	err := command(t.Context(), []string{"--batches", "10000", "--clients", "2", "--point", "300ms", "--report", filepath.Join(t.TempDir(), "run")}, &out)
	require.NoError(t, err, out.String())
	t.Log(out.String())
	for _, what := range []string{"node a", "node b", "node c", "snapshots meanwhile", "a voter before it was ready", "installed"} {
		require.Contains(t, out.String(), what)
	}
	require.Regexp(t, `different digests +1 +met: one`, out.String())
}

func TestMissedTargetsAreCounted(t *testing.T) {
	var out strings.Builder
	r := report.New(&out)
	slow := sample{took: time.Second, latencies: []time.Duration{3 * time.Millisecond}}
	quick := sample{took: time.Second, latencies: []time.Duration{time.Millisecond}}
	commits(r, "before", "during", quick, slow, 3)
	require.Zero(t, r.Missed())
	commits(r, "before", "during", quick, slow, 2.9)
	require.Equal(t, 1, r.Missed())
	require.NoError(t, r.Flush())
	require.Contains(t, out.String(), "MISSED: p99 at most 2.9x (3.00)")
}

func TestOptions(t *testing.T) {
	require.ErrorContains(t, command(t.Context(), nil, nil), "name one directory")
	require.ErrorContains(t, command(t.Context(), []string{"--batches", "10", "dir"}, nil), "batches must be at least 10000")
}
