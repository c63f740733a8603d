package objectstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/purger/objectstore"
)

// TestDirectoryStaysInside: neither keys nor links lead out of the directory.
func TestDirectoryStaysInside(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("x"), 0o600))
	dir := filepath.Join(outside, "store")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink(victim, filepath.Join(dir, "link")))
	s := openDirectory(t, dir)

	for _, key := range []string{"../victim", "a/../../victim", "/victim", victim, "./victim", "a//b", "a/", "..", ".", "a\x00b", "\xff", ".incoming/x", "out/victim"} {
		require.Error(t, s.Put(t.Context(), key, strings.NewReader("y"), 1), key)
		require.Error(t, s.Delete(t.Context(), []string{key})[0], key)
		_, err := s.Stat(t.Context(), key)
		require.Error(t, err, key)
		_, err = s.Get(t.Context(), key)
		require.Error(t, err, key)
		require.NotErrorIs(t, err, objectstore.ErrNotFound, key)
	}
	require.Empty(t, list(t, s, "", "", 10), "links are no objects")
	require.NoError(t, s.Delete(t.Context(), []string{"link"})[0])
	_, err := os.Lstat(filepath.Join(dir, "link"))
	require.NoError(t, err)
	content, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
}

// TestDirectoryUnfinished: what a crash left of a Put is no object, and in nobody's way.
func TestDirectoryUnfinished(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".incoming"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".incoming", "x"), []byte("half"), 0o600))
	s := openDirectory(t, dir)
	put(t, s, "a", "x")
	require.Equal(t, []string{"a"}, list(t, s, "", "", 10))
}

// TestDirectoryPartialFailure: one key that cannot be removed fails alone.
func TestDirectoryPartialFailure(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root may remove anything: a link out of the store stands for what it may not")
	}
	dir := t.TempDir()
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "bad")))
	s := openDirectory(t, dir)
	put(t, s, "a", "x")
	put(t, s, "b/c", "x")
	errs := s.Delete(t.Context(), []string{"a", "bad/x", "b/c"})
	require.NoError(t, errs[0])
	require.Error(t, errs[1])
	require.NoError(t, errs[2])
	require.Empty(t, list(t, s, "", "", 10))
}
