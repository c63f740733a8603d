package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, run(t.Context(), nil), "name the directory")
	require.ErrorContains(t, run(t.Context(), []string{dir}), checker.HistoryFile)

	// A run without an end is read, and is no success.
	line, err := json.Marshal(history.Record{
		Op: "list-offsets", Outcome: history.OK, Request: []byte(`{"requests":[]}`), Response: []byte(`{"responses":[]}`),
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, checker.HistoryFile), line, 0o600))
	require.ErrorContains(t, run(t.Context(), []string{dir}), checker.FaultsFile)
	require.NoError(t, os.WriteFile(filepath.Join(dir, checker.FaultsFile), nil, 0o600))
	require.ErrorIs(t, run(t.Context(), []string{dir}), errNotOK)

	require.NoError(t, os.WriteFile(filepath.Join(dir, checker.HistoryFile), []byte(`{"op":"guess"}`), 0o600))
	require.ErrorContains(t, run(t.Context(), []string{dir}), "line 1")
}
