package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
	"github.com/cpnode/cpnode/jepsen/page"
)

// A short run holds, and leaves no process, which would keep its directory from being
// checked. Its history can be judged again, and what is made wrong in it is noticed.
func TestShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs three processes for half a minute")
	}
	dir := filepath.Join(t.TempDir(), "run")
	var out strings.Builder
	kinds, err := nemesis.Select("kill,pause,cut,mix")
	require.NoError(t, err)
	report, err := run(t.Context(), options{dir: dir, kinds: kinds, count: 8, operations: 2000, nodes: 3, seed: 1, brokers: true}, &out)
	require.NoError(t, err, out.String())
	t.Log(out.String())
	require.True(t, report.OK())

	acknowledged := report.Summary.Operations["commit-file"][history.OK]
	require.Greater(t, acknowledged, 100)
	require.Greater(t, report.Summary.Operations["switch: commit-seal"][history.OK], 0)
	for _, file := range []string{page.TextFile, page.JSONFile, page.PageFile} {
		require.FileExists(t, filepath.Join(dir, file))
	}

	for way, check := range map[string]string{
		"lost-commit": checker.CheckAcknowledged, "offset-twice": checker.CheckOffsets, "stale-read": checker.CheckFresh,
	} {
		config := checker.DefaultConfig()
		config.Doctor = way
		report, err := checker.Check(t.Context(), dir, config)
		require.NoError(t, err)
		require.Contains(t, report.Doctored, "line ")
		require.True(t, slices.ContainsFunc(report.Violations, func(v checker.Violation) bool { return v.Check == check }), "%s: %v", way, report.Violations)
	}
}

func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no directory":   {nil, "name one directory"},
		"two":            {[]string{"a", "b"}, "name one directory"},
		"a pair":         {[]string{"--nodes", "2", "a"}, "nodes 3 to 7"},
		"less than none": {[]string{"--ops", "-1", "a"}, "ops must be at least 0"},
		"unknown fault":  {[]string{"--faults", "kill,flood", "a"}, `no kind of fault is called "flood"; there are kill, pause, cut`},
		"taken":          {[]string{t.TempDir()}, "file exists"},
		"no such binary": {[]string{"--cpnode", "/nonexistent", filepath.Join(t.TempDir(), "new")}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, command(t.Context(), test.args, io.Discard), test.want)
		})
	}
}
