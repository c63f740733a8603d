// Package storetest opens state files for tests.
package storetest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/store"
)

// Open opens a store in a directory of its own. It does not sync. At the end of
// the test it is closed and its file checked: a test that passes has left a state
// in which every invariant holds.
func Open(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), store.Options{Sync: store.SyncNever})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		Check(t, s.Path())
	})
	return s
}

// Check fails the test unless the file at path, which must be closed, is whole.
// It returns what was counted.
func Check(t testing.TB, path string) store.Report {
	t.Helper()
	r, err := store.Check(path)
	require.NoError(t, err)
	require.NoError(t, r.Err(), "%q", r.Problems)
	return r
}
