package exact

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// here is the toolchain of this test, if the table is for it.
func here(t *testing.T) toolchain {
	t.Helper()
	with, err := find(t.Context())
	if err == nil {
		_, err = with.overlay(t.TempDir(), "")
	}
	if errors.Is(err, ErrToolchain) && with.GOVERSION != Release {
		t.Skip(err)
	}
	require.NoError(t, err)
	return with
}

func TestAnotherReleaseIsRefused(t *testing.T) {
	_, err := toolchain{"go1.26.0", here(t).GOROOT}.overlay(t.TempDir(), "")
	require.ErrorIs(t, err, ErrToolchain)
	require.ErrorContains(t, err, Release)
	require.ErrorContains(t, err, "run without --exact: this is go1.26.0")
}

// A line of the runtime that is not as it was must not go unnoticed.
func TestAnotherRuntimeIsRefused(t *testing.T) {
	from, root := here(t), t.TempDir()
	to := filepath.Join(root, "src", "runtime")
	require.NoError(t, os.CopyFS(to, os.DirFS(filepath.Join(from.GOROOT, "src", "runtime"))))
	_, err := toolchain{Release, root}.overlay(t.TempDir(), "")
	require.NoError(t, err)
	for _, c := range table {
		path := filepath.Join(to, c.File)
		code, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(code, c.Old...), 0o600))
		_, err = toolchain{Release, root}.overlay(t.TempDir(), "")
		require.ErrorIs(t, err, ErrToolchain, c.Old)
		require.ErrorContains(t, err, path+" has")
		require.NoError(t, os.WriteFile(path, code, 0o600))
	}
}
