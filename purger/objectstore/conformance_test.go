package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/purger/objectstore/s3test"
)

// stores make one of each kind of store, empty.
var stores = map[string]func(*testing.T) objectstore.Store{
	"memory":    func(*testing.T) objectstore.Store { return objectstore.NewMemory(nil) },
	"directory": func(t *testing.T) objectstore.Store { return openDirectory(t, t.TempDir()) },
	"prefix":    openPart,
	"lazy":      func(t *testing.T) objectstore.Store { return openLazily(t.TempDir()) },
	"s3":        openS3,
}

// openPart is a part of a store that holds other objects too.
func openPart(t *testing.T) objectstore.Store {
	whole := objectstore.NewMemory(nil)
	for _, key := range []string{"before", "part", "q"} {
		put(t, whole, key, "x")
	}
	return objectstore.WithPrefix(whole, "part/")
}

func openDirectory(t *testing.T, dir string) *objectstore.Directory {
	t.Helper()
	d, err := objectstore.OpenDirectory(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func openS3(t *testing.T) objectstore.Store {
	if testing.Short() {
		t.Skip("-short: starts an S3 server process")
	}
	s, err := objectstore.OpenS3(t.Context(), s3test.Start(t).Bucket(t, "objects"))
	require.NoError(t, err)
	return s
}

func put(t *testing.T, s objectstore.Store, key, content string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, strings.NewReader(content), int64(len(content))))
}

func get(t *testing.T, s objectstore.Store, key string) string {
	t.Helper()
	r, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	defer r.Close()
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(content)
}

// list is at most limit of the keys.
func list(t *testing.T, s objectstore.Store, prefix, after string, limit int) []string {
	t.Helper()
	keys := []string{}
	require.NoError(t, s.List(t.Context(), prefix, after, func(o objectstore.Object) bool {
		keys = append(keys, o.Key)
		return len(keys) < limit
	}))
	return keys
}

// TestStores holds every store to what Store promises.
func TestStores(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Run("put, get, stat", func(t *testing.T) { putGetStat(t, s) })
			t.Run("list", func(t *testing.T) { listInOrder(t, s) })
			t.Run("list pages", func(t *testing.T) { listPages(t, s) })
			t.Run("delete", func(t *testing.T) { deleteKeyByKey(t, s) })
			t.Run("ended context", func(t *testing.T) { endedContext(t, s) })
		})
	}
}

func putGetStat(t *testing.T, s objectstore.Store) {
	began := time.Now().Add(-2 * time.Second) // S3 has whole seconds
	put(t, s, "psg/a b+c&d=ü%2F<>\"'.obj", "hello")
	put(t, s, "psg/empty", "")
	require.Equal(t, "hello", get(t, s, "psg/a b+c&d=ü%2F<>\"'.obj"))
	require.Empty(t, get(t, s, "psg/empty"))
	put(t, s, "psg/empty", "no more")
	require.Equal(t, "no more", get(t, s, "psg/empty"))

	o, err := s.Stat(t.Context(), "psg/empty")
	require.NoError(t, err)
	require.Equal(t, "psg/empty", o.Key)
	require.EqualValues(t, 7, o.Size)
	require.True(t, o.ModifiedAt.After(began) && o.ModifiedAt.Before(time.Now().Add(2*time.Second)), o.ModifiedAt)

	for _, key := range []string{"psg/none", "none/at/all", "psg"} {
		_, err = s.Stat(t.Context(), key)
		require.ErrorIs(t, err, objectstore.ErrNotFound, key)
		_, err = s.Get(t.Context(), key)
		require.ErrorIs(t, err, objectstore.ErrNotFound, key)
	}
	require.Error(t, s.Put(t.Context(), "psg/short", io.MultiReader(bytes.NewReader([]byte("abc"))), 5))
	_, err = s.Stat(t.Context(), "psg/short")
	require.ErrorIs(t, err, objectstore.ErrNotFound, "an object is whole or not there")
}

func listInOrder(t *testing.T, s objectstore.Store) {
	keys := []string{"lst/a-", "lst/a.b", "lst/a/b", "lst/a/c/d", "lst/a0", "lst/b", "lst/ä"}
	for _, key := range []int{3, 0, 6, 1, 5, 2, 4} {
		put(t, s, keys[key], keys[key])
	}
	require.Equal(t, keys, list(t, s, "lst/", "", 100))
	require.Equal(t, keys[2:4], list(t, s, "lst/a/", "", 100))
	require.Equal(t, keys[:5], list(t, s, "lst/a", "", 100))
	require.Equal(t, keys[2:3], list(t, s, "lst/a/b", "", 100))
	require.Empty(t, list(t, s, "lst/a/b/", "", 100))
	require.Empty(t, list(t, s, "nothing", "", 100))
	require.Equal(t, keys[:2], list(t, s, "lst/", "", 2))
	for i, after := range keys {
		require.Equal(t, keys[i+1:], list(t, s, "lst/", after, 100), "after %s", after)
	}
	require.Equal(t, keys[2:], list(t, s, "lst/", "lst/a.c", 100))
	require.Equal(t, keys[3:], list(t, s, "lst/", "lst/a/c", 100))
	require.Empty(t, list(t, s, "lst/", "lsu", 100))
	require.Equal(t, keys, list(t, s, "lst/", "lss", 100))

	require.NoError(t, s.List(t.Context(), "lst/", "", func(o objectstore.Object) bool {
		require.EqualValues(t, len(o.Key), o.Size)
		require.WithinDuration(t, time.Now(), o.ModifiedAt, time.Minute)
		return true
	}))
}

func listPages(t *testing.T, s objectstore.Store) {
	var keys []string
	for i := range 1100 { // S3 lists 1,000 at a time
		keys = append(keys, fmt.Sprintf("pgs/%d/%04d", i/300, i))
		put(t, s, keys[i], "")
	}
	require.Equal(t, keys, list(t, s, "pgs/", "", 2000))
	for _, err := range s.Delete(t.Context(), keys) { // and deletes as many
		require.NoError(t, err)
	}
	require.Empty(t, list(t, s, "pgs/", "", 10))
}

func deleteKeyByKey(t *testing.T, s objectstore.Store) {
	for _, key := range []string{"del/a", "del/b/c", "del/b/d", "del/é &<x>"} {
		put(t, s, key, "x")
	}
	gone := []string{"del/b/c", "del/none", "never/was", "del/b", "del/é &<x>", "del/b/c"}
	require.Equal(t, make([]error, len(gone)), s.Delete(t.Context(), gone))
	require.Equal(t, []string{"del/a", "del/b/d"}, list(t, s, "del/", "", 10), "what was not named stays")
	require.Empty(t, s.Delete(t.Context(), nil))
}

func endedContext(t *testing.T, s objectstore.Store) {
	put(t, s, "ctx/a", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Delete(ctx, []string{"ctx/a", "ctx/none"}) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, s.Put(ctx, "ctx/b", strings.NewReader("x"), 1), context.Canceled)
	_, err := s.Stat(ctx, "ctx/a")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.List(ctx, "ctx/", "", func(objectstore.Object) bool { return true }), context.Canceled)
	require.Equal(t, []string{"ctx/a"}, list(t, s, "ctx/", "", 10))
}

// TestUnholdableKeys: a key that a store cannot hold is an error, not an absent object.
func TestUnholdableKeys(t *testing.T) {
	for name, open := range stores {
		if name == "prefix" {
			continue // what it holds is for the whole store to say
		}
		t.Run(name, func(t *testing.T) {
			s := open(t)
			require.Error(t, s.Put(t.Context(), "", strings.NewReader(""), 0))
			errs := s.Delete(t.Context(), []string{"", "fine"})
			require.Error(t, errs[0])
			require.NoError(t, errs[1])
		})
	}
}

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		config objectstore.Config
		want   string
	}{
		{objectstore.Config{Type: "ftp"}, `Type: "ftp" must be`},
		{objectstore.Config{Type: objectstore.TypeDirectory}, "Directory: must be given"},
		{objectstore.Config{Type: objectstore.TypeDirectory, Directory: "/does/not/exist"}, "/does/not/exist"},
		{objectstore.Config{Type: objectstore.TypeS3}, "S3.Endpoint: must be given"},
		{objectstore.Config{Type: objectstore.TypeS3, S3: objectstore.S3Config{Endpoint: "x"}}, "S3.Bucket: must be given"},
		{objectstore.Config{Type: objectstore.TypeS3, S3: objectstore.S3Config{Endpoint: "http://x", Bucket: "b", AccessKey: "a"}}, "give both or neither"},
		{objectstore.Config{Type: objectstore.TypeS3, S3: objectstore.S3Config{Endpoint: "x:9000", Bucket: "b"}}, `S3.Endpoint: "x:9000" must be a URL`},
	} {
		_, err := objectstore.Open(t.Context(), c.config)
		require.ErrorContains(t, err, c.want)
	}
	dir := t.TempDir()
	s, err := objectstore.Open(t.Context(), objectstore.Config{Type: objectstore.TypeDirectory, Directory: dir, Prefix: "in/"})
	require.NoError(t, err)
	put(t, s, "a", "x")
	require.NoError(t, s.Close())
	require.Equal(t, []string{"in/a"}, list(t, openDirectory(t, dir), "", "", 10))
}

// TestS3Failures: keys are confirmed by what the server says alone.
func TestS3Failures(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts an S3 server process")
	}
	server := s3test.Start(t)
	config := server.Bucket(t, "objects")

	missing := config
	missing.Bucket = "elsewhere"
	_, err := objectstore.OpenS3(t.Context(), missing)
	require.ErrorContains(t, err, "no such bucket")
	wrong := config
	wrong.SecretKey = "not-it"
	_, err = objectstore.OpenS3(t.Context(), wrong)
	require.Error(t, err)

	s, err := objectstore.OpenS3(t.Context(), config)
	require.NoError(t, err)
	put(t, s, "a", "x")
	server.Stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	errs := s.Delete(ctx, []string{"a", "none"})
	require.False(t, slices.ContainsFunc(errs, func(err error) bool { return err == nil }), errs)
	_, err = s.Stat(ctx, "a")
	require.False(t, err == nil || errors.Is(err, objectstore.ErrNotFound), err)

	server.Restart(t)
	require.Equal(t, "x", get(t, s, "a"))
	require.Equal(t, []error{nil, nil}, s.Delete(t.Context(), []string{"a", "none"}))
	_, err = s.Stat(t.Context(), "a")
	require.ErrorIs(t, err, objectstore.ErrNotFound)
}
