package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
)

// A short run holds, and leaves no process, which would keep its directory from being
// checked. Its history can be judged again: a final read that is taken out is missed.
func TestShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs three processes for half a minute")
	}
	dir := filepath.Join(t.TempDir(), "run")
	var out strings.Builder
	report, err := run(t.Context(), options{dir: dir, faults: 8, operations: 2000, nodes: 3, seed: 1}, &out)
	require.NoError(t, err, out.String())
	t.Log(out.String())
	require.True(t, report.OK())

	acknowledged := report.Summary.Operations["commit-file"][history.OK]
	require.Greater(t, acknowledged, 100)
	require.Len(t, report.Summary.Operations, 10)
	require.FileExists(t, filepath.Join(dir, verdictFile))

	loseFinalRead(t, filepath.Join(dir, checker.HistoryFile))
	report, err = checker.Check(t.Context(), dir, checker.DefaultConfig())
	require.NoError(t, err)
	require.False(t, report.OK())
}

// loseFinalRead takes the last line with batches out of a history.
func loseFinalRead(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.Contains(lines[i], `"final":true`) && strings.Contains(lines[i], `"object_key"`) {
			lines[i] = ""
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
			return
		}
	}
	t.Fatal("no final read found a batch")
}

func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no directory":   {nil, "name one directory"},
		"two":            {[]string{"a", "b"}, "name one directory"},
		"a pair":         {[]string{"--nodes", "2", "a"}, "nodes 3 to 7"},
		"nothing to do":  {[]string{"--ops", "0", "a"}, "ops at least 1"},
		"taken":          {[]string{t.TempDir()}, "file exists"},
		"no such binary": {[]string{"--cpnode", "/nonexistent", filepath.Join(t.TempDir(), "new")}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, command(t.Context(), test.args, io.Discard), test.want)
		})
	}
}
