package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/cluster"
)

// TestBothStores is the program, smaller: the targets are for it, the rest must hold.
func TestBothStores(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds the binary and runs three processes")
	}
	binary := filepath.Join(t.TempDir(), "cpnode")
	require.NoError(t, cluster.Provide(t.Context(), "", binary))
	for _, kind := range []string{storeDirectory, storeS3} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := command(t.Context(), []string{"--cpnode", binary, "--store", kind, "--batches", "8400", "--interval", "800ms", "--grace", "2s", "--report",
				filepath.Join(t.TempDir(), "run")}, &out)
			require.NoError(t, err, out.String())
			t.Log(out.String())
			require.Contains(t, out.String(), "one object put beside: found, deleted")
		})
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "name one directory"},
		{[]string{"--store", "tape", "dir"}, "store must be directory or s3"},
		{[]string{"--batches", "10", "dir"}, "batches must be at least 1050"},
		{[]string{"--grace", "0s", "dir"}, "at least 1ms"},
	} {
		require.ErrorContains(t, command(t.Context(), c.args, nil), c.says)
	}
}
