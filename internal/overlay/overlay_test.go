package overlay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// read is what a map puts in place of a file.
func read(t *testing.T, path, file string) string {
	t.Helper()
	var all replacement
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &all))
	code, err := os.ReadFile(all.Replace[file])
	require.NoError(t, err)
	return string(code)
}

// Changes of one file add up, and to those of the map below; the file stays as it is.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "a.go"), filepath.Join(dir, "b.go")
	for _, path := range []string{file, other} {
		require.NoError(t, os.WriteFile(path, []byte("one two three"), 0o600))
	}
	below, err := Write(t.TempDir(), "", Change{file, "one", "1"}, Change{other, "one", "I"})
	require.NoError(t, err)
	path, err := Write(t.TempDir(), below, Change{file, "two", "2"}, Change{file, "2 three", "2 3"})
	require.NoError(t, err)
	require.Equal(t, "1 2 3", read(t, path, file))
	require.Equal(t, "I two three", read(t, path, other))
	require.Equal(t, "1 two three", read(t, below, file))

	for _, old := range []string{"four", "e"} {
		_, err := Write(t.TempDir(), below, Change{file, old, "4"})
		require.ErrorContains(t, err, file+" has")
	}
	_, err = Write(t.TempDir(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
