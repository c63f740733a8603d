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
	chosen, err := choose("checksum of a row", "0/1")
	require.NoError(t, err)
	ok, err := run(t.Context(), chosen, 1)
	require.NoError(t, err)
	require.True(t, ok)

	harmless := mutations[0]
	harmless.new = harmless.old
	killed, err := harmless.try(t.Context(), newBinaries(t.TempDir()), t.TempDir()+"/1")
	require.NoError(t, err)
	require.False(t, killed, "the code as it is cannot fail its test")
}

// Every mutation is in one share.
func TestShares(t *testing.T) {
	for _, share := range []string{"", "1", "3/3", "-1/3"} {
		_, err := choose("", share)
		require.ErrorContains(t, err, "share", share)
	}
	count := 0
	for _, share := range []string{"0/3", "1/3", "2/3"} {
		chosen, err := choose("", share)
		require.NoError(t, err)
		require.InDelta(t, len(mutations)/3, len(chosen), 1)
		count += len(chosen)
	}
	require.Equal(t, len(mutations), count)
}
