package store_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/crashdisk"
	"github.com/cpnode/cpnode/store"
)

// panics is a test without a test: in a child process, and where a value is made
// once for several tests.
type panics struct{}

func (panics) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }
func (panics) FailNow()                          { panic("failed") }
func (panics) Helper()                           {}

func tempDir(t fataler) (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "crash-*")
	require.NoError(t, err)
	return dir, func() { _ = os.RemoveAll(dir) }
}

// event is a change to a file, and what was in the state when it was made.
type event struct {
	store.Change
	applied, durable, next uint64
}

// recordLife lives a life and returns every change that it made to its files.
func recordLife(t fataler, pinned bool) []event {
	dir, remove := tempDir(t)
	defer remove()
	l := &life{t: t, h: makeHistory(), path: filepath.Join(dir, "state.db"), pinned: pinned}
	// The files are there before the record begins: it is about what has a past.
	l.options = bootOptions("first")
	l.open()
	require.NoError(t, l.store.Close())
	var events []event
	for _, name := range []string{"state.db", "state.sync"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		events = append(events, event{Change: store.Change{Op: store.OpCreate, Path: name}},
			event{Change: store.Change{Op: store.OpWrite, Path: name, Data: data}}, event{Change: store.Change{Op: store.OpSync, Path: name}})
	}
	events = append(events, event{Change: store.Change{Op: store.OpSyncDir}})
	l.options = bootOptions("first")
	l.options.Watch = crashdisk.Watch(func(c store.Change) error {
		c.Data = bytes.Clone(c.Data)
		events = append(events, event{c, l.applied, l.durable, l.next()})
		return nil
	}, nil)
	l.run()
	require.NoError(t, l.store.Close())
	return events
}

func bootOptions(boot string) store.Options {
	return store.Options{Sync: store.SyncInterval, BootID: func() string { return boot }, InitialMmapBytes: 64 << 20}
}

// past are the events that made the files before the life began.
const past = 7

// write writes what a crash leaves to a new directory.
func write(t fataler, dir string, files map[string][]byte) {
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
}
