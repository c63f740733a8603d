package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The whole tour, in a hurry.
func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs a cluster of processes for a minute")
	}
	var out strings.Builder
	err := run(t.Context(), options{
		dir: filepath.Join(t.TempDir(), "tour"), seed: 1, rate: 60, hold: 200 * time.Millisecond, watch: 1500 * time.Millisecond,
	}, &out)
	require.NoError(t, err, out.String())
	for _, s := range itinerary {
		require.Contains(t, out.String(), s.name)
	}
	require.Equal(t, len(itinerary), strings.Count(out.String(), "acknowledged commits are there"))
}

func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no directory":   {nil, "name one directory"},
		"no clients":     {[]string{"--rate", "0", "a"}, "rate must be at least 1"},
		"taken":          {[]string{t.TempDir()}, "file exists"},
		"no such binary": {[]string{"--cpnode", "/nonexistent", filepath.Join(t.TempDir(), "new")}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, command(t.Context(), test.args, io.Discard), test.want)
		})
	}
}
