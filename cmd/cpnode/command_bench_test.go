package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/cmd/cpnode/bench"
)

func TestBenchWritesItsReport(t *testing.T) {
	page, profile := filepath.Join(t.TempDir(), "page.md"), filepath.Join(t.TempDir(), "cpu")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"bench", "--quick", "--work", "disk,restart", "--nodes", "1", "--duration", "50ms",
		"--dir", t.TempDir(), "-o", "json", "--markdown", page, "--cpuprofile", profile}, nil, &stdout, &stderr)
	require.Equal(t, exitOK, code, stderr.String())
	require.Empty(t, stderr.String(), "progress is for terminals")
	var report bench.Report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &report))
	require.Equal(t, "quick", report.Scale.Name)
	require.Equal(t, "disk", report.Lines[0].Work)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "## restart")
	info, err := os.Stat(profile)
	require.NoError(t, err)
	require.Positive(t, info.Size())
}

func TestBenchNamesWhatItDoesNotMeasure(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, run(t.Context(), []string{"bench", "--work", "comit"}, nil, &stdout, &stderr))
	require.Contains(t, stderr.String(), `--work: "comit" is not known; allowed are disk, commit`)
}
