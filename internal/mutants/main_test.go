package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The lines that mutations replace must be there, or `make mutants` says nothing.
func TestMutationsApply(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, m := range mutations {
		require.False(t, names[m.name], m.name)
		names[m.name] = true
		wrong, err := m.change().Apply()
		require.NoError(t, err, m.name)
		require.Contains(t, string(wrong), m.new)
	}
}

func TestOneMutationIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a package twice")
	}
	t.Chdir("../..")
	ok, err := run(t.Context(), "checksum of a row", 1)
	require.NoError(t, err)
	require.True(t, ok)

	harmless := mutations[0]
	harmless.new = harmless.old
	killed, err := harmless.try(t.Context(), newBinaries(t.TempDir()), t.TempDir()+"/1")
	require.NoError(t, err)
	require.False(t, killed, "the code as it is cannot fail its test")
}
