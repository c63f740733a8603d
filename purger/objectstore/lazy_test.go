package objectstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/purger/objectstore"
)

func openLazily(dir string) *objectstore.Lazy {
	return objectstore.NewLazy(func(context.Context) (objectstore.Store, error) { return objectstore.OpenDirectory(dir) })
}

// TestLazyOpensWhenItCan: while a store cannot be opened every call says so and confirms
// nothing; the first call after that has it.
func TestLazyOpensWhenItCan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not-mounted")
	s := openLazily(dir)
	require.ErrorIs(t, s.Ready(t.Context()), os.ErrNotExist)
	for _, err := range s.Delete(t.Context(), []string{"a", "b"}) {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	_, err := s.Stat(t.Context(), "a")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, objectstore.ErrNotFound)
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, s.List(t.Context(), "", "", nil), os.ErrNotExist)
	require.ErrorIs(t, s.Put(t.Context(), "a", strings.NewReader("x"), 1), os.ErrNotExist)
	require.NoError(t, s.Close(), "nothing is open")

	require.NoError(t, os.Mkdir(dir, 0o700))
	put(t, s, "a", "x")
	require.Equal(t, "x", get(t, s, "a"))
	require.NoError(t, s.Close())
}

// TestLazyOpensOnce: who waits while another call opens the store gives up with its context.
func TestLazyOpensOnce(t *testing.T) {
	opens, begun, release := 0, make(chan struct{}), make(chan struct{})
	s := objectstore.NewLazy(func(context.Context) (objectstore.Store, error) {
		opens++
		close(begun)
		<-release
		return objectstore.NewMemory(nil), nil
	})
	ready := make(chan error)
	go func() { ready <- s.Ready(t.Context()) }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Delete(ctx, []string{"a"})[0], context.Canceled)
	close(release)
	require.NoError(t, <-ready)
	require.NoError(t, s.Ready(t.Context()))
	require.Equal(t, 1, opens)
}
