package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The lines that are to be wrong must be there, or a run says nothing.
func TestBugsApply(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, b := range bugs {
		require.False(t, names[b.name], b.name)
		names[b.name] = true
		wrong, err := b.change().Apply()
		require.NoError(t, err, b.name)
		require.Contains(t, string(wrong), b.new)
	}
}
