package store_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/require"

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
		events = append(events, event{Change: store.NewChange(store.OpCreate, name, 0, nil)},
			event{Change: store.NewChange(store.OpWrite, name, 0, data)}, event{Change: store.NewChange(store.OpSync, name, 0, nil)})
	}
	events = append(events, event{Change: store.NewChange(store.OpSyncDir, "", 0, nil)})
	l.options = bootOptions("first").Watched(func(c store.Change) {
		events = append(events, event{c.Copy(), l.applied, l.durable, l.next()})
	})
	l.run()
	require.NoError(t, l.store.Close())
	return events
}

func bootOptions(boot string) store.Options {
	return store.Options{Sync: store.SyncInterval, BootID: func() string { return boot }, InitialMmapBytes: 64 << 20}
}

// past are the events that made the files before the life began.
const past = 7

// simDisk is a directory as the kernel has it, and as the disk may have it.
type simDisk struct {
	names   map[string]*simFile
	durable map[string]*simFile // names as of the last sync of the directory
	renames []map[string]*simFile
}

type simFile struct {
	data   []byte
	synced []byte
	writes []simWrite // since the last sync
}

type simWrite struct {
	off  int64
	data []byte
}

func newSimDisk() *simDisk {
	return &simDisk{names: map[string]*simFile{}, durable: map[string]*simFile{}}
}

// do makes one change.
func (d *simDisk) do(e event) {
	name := filepath.Base(e.Path())
	f := d.names[name]
	switch e.Op() {
	case store.OpCreate:
		d.names[name] = &simFile{}
		d.renamed()
	case store.OpWrite:
		f.data = writeOver(f.data, e.Offset(), e.Data())
		f.writes = append(f.writes, simWrite{e.Offset(), e.Data()})
	case store.OpSync:
		f.synced, f.writes = bytes.Clone(f.data), nil
	case store.OpRename:
		d.names[filepath.Base(e.To())] = f
		delete(d.names, name)
		d.renamed()
	case store.OpRemove:
		delete(d.names, name)
		d.renamed()
	case store.OpSyncDir:
		d.durable, d.renames = maps.Clone(d.names), nil
	}
}

func (d *simDisk) renamed() { d.renames = append(d.renames, maps.Clone(d.names)) }

func writeOver(data []byte, off int64, b []byte) []byte {
	if end := int(off) + len(b); end > len(data) {
		data = append(data, make([]byte, end-len(data))...)
	}
	copy(data[off:], b)
	return data
}

// killed writes what a process that was killed leaves: all it did.
func (d *simDisk) killed(t fataler, dir string) {
	d.write(t, dir, d.names, func(_ string, f *simFile) []byte { return f.data })
}

// cut writes what a power cut leaves: some of the renames since the last sync of the
// directory, in their order, and of each part of a file what was synced last or any
// of what was written there since.
func (d *simDisk) cut(t fataler, dir string, r *rand.Rand) {
	names := d.durable
	if n := r.IntN(len(d.renames) + 1); n > 0 {
		names = d.renames[n-1]
	}
	d.write(t, dir, names, func(name string, f *simFile) []byte { return f.torn(r, filepath.Ext(name) == ".db") })
}

func (d *simDisk) write(t fataler, dir string, names map[string]*simFile, content func(string, *simFile) []byte) {
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content(name, names[name]), 0o600))
	}
}

const (
	simPage   = 4096
	simSector = 512
)

// torn is a file of which each page, or sector where a page is no unit of the disk,
// is of some moment since the last sync.
func (f *simFile) torn(r *rand.Rand, pages bool) []byte {
	data := bytes.Clone(f.synced)
	unit := func(off int64) int64 {
		if pages && off >= 2*simPage { // the first two are meta pages
			return simPage
		}
		return simSector
	}
	// Of the writes to one place a random number, in their order, has arrived.
	arrived := map[int64]int{}
	for round := range 2 {
		for _, w := range f.writes {
			for off := w.off; off < w.off+int64(len(w.data)); {
				place := off - off%unit(off)
				n := min(place+unit(off), w.off+int64(len(w.data))) - off
				switch {
				case round == 0:
					arrived[place]++
				case arrived[place] > 0:
					arrived[place]--
					data = writeOver(data, off, w.data[off-w.off:off-w.off+n])
				}
				off += n
			}
		}
		if round == 0 {
			for _, place := range slices.Sorted(maps.Keys(arrived)) {
				arrived[place] = r.IntN(arrived[place] + 1)
			}
		}
	}
	return data
}
