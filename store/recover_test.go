package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func boot(id string) Options {
	return Options{Sync: SyncInterval, BootID: func() string { return id }, InitialMmapBytes: 64 << 20}
}

// died is a world whose process died, at index 7 after a sync point at 5, with a
// copy of its files: the store itself goes on.
func died(t *testing.T, o Options) (dir string) {
	w := newWorldAt(t, o)
	for i := range 5 {
		update(t, w.s, func(tx *WriteTx) { w.commit(tx, 30); require.NoError(t, tx.SetApplied(uint64(i+1), 1)) })
	}
	p, err := w.s.Point(nil)
	require.NoError(t, err)
	require.NoError(t, p.Commit(func([]byte) ([]byte, error) { return []byte("five"), nil }))
	for i := range 2 {
		update(t, w.s, func(tx *WriteTx) { w.commit(tx, 30); require.NoError(t, tx.SetApplied(uint64(i+6), 1)) })
	}
	require.EqualValues(t, 2, w.s.Unrecorded())
	return copyOf(t, filepath.Dir(w.s.path))
}

// newWorldAt is a world on a store with records.
func newWorldAt(t *testing.T, o Options) *world {
	w := newWorld(t, 1, 4)
	require.NoError(t, w.s.Close())
	path := filepath.Join(t.TempDir(), "state.db")
	data, err := os.ReadFile(w.s.path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	w.s, err = Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.s.Close()) })
	return w
}

func copyOf(t *testing.T, dir string) string {
	to := t.TempDir()
	for _, name := range []string{"state.db", "state.sync"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, name), data, 0o600))
	}
	return to
}

// TestOpenGoesByTheRecords holds every line of the table in docs/design.md.
func TestOpenGoesByTheRecords(t *testing.T) {
	tear := func(t *testing.T, dir string) { // loses what was written after the sync point
		f, err := os.OpenFile(filepath.Join(dir, "state.db"), os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		metas, problem, err := metasOf(f)
		require.NoError(t, err)
		require.Empty(t, problem)
		newest, _ := metas.newest()
		_, err = f.WriteAt(make([]byte, 4096), int64(newest.root)*4096)
		require.NoError(t, err)
	}
	closed := func(t *testing.T, dir string) {
		s, err := Open(filepath.Join(dir, "state.db"), boot("a"))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	noRecords := func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "state.sync"))) }
	for name, c := range map[string]struct {
		boot    string
		before  []func(*testing.T, string)
		want    uint64 // index, 0: refused
		noChild bool
	}{
		"process died":                    {boot: "a", want: 7},
		"process died, bad disk":          {boot: "a", before: []func(*testing.T, string){tear}},
		"closed clean, bad disk":          {boot: "a", before: []func(*testing.T, string){closed, tear}},
		"process died, no child":          {boot: "a", want: 7, noChild: true},
		"machine died":                    {boot: "b", want: 5},
		"machine died, torn":              {boot: "b", want: 5, before: []func(*testing.T, string){tear}},
		"boot id not known":               {boot: "", want: 5},
		"machine died, no child":          {boot: "b", noChild: true},
		"closed clean, then another boot": {boot: "b", want: 7, before: []func(*testing.T, string){closed}, noChild: true},
		"closed clean, boot id not known": {boot: "", want: 7, before: []func(*testing.T, string){closed}, noChild: true},
		"no records":                      {boot: "a", want: 7, before: []func(*testing.T, string){noRecords}},
		"no records, torn":                {boot: "a", before: []func(*testing.T, string){tear, noRecords}},
		"no records, no child":            {boot: "a", before: []func(*testing.T, string){noRecords}, noChild: true},
		"another state, torn":             {boot: "b", before: []func(*testing.T, string){otherState}},
		"another state":                   {boot: "a", before: []func(*testing.T, string){otherState}},
		"state gone":                      {boot: "a", before: []func(*testing.T, string){stateGone}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := died(t, boot("a"))
			for _, fn := range c.before {
				fn(t, dir)
			}
			childCalled.Store(!c.noChild)
			defer childCalled.Store(true)
			s, err := Open(filepath.Join(dir, "state.db"), boot(c.boot))
			if c.want == 0 {
				require.ErrorIs(t, err, ErrCorrupt)
				if c.noChild {
					require.ErrorIs(t, err, ErrNoChild)
				}
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, metaOf(t, s).AppliedIndex)
			require.Equal(t, c.want, s.Record().Index, "a sync point of its own")
			if c.want == 5 {
				require.Equal(t, "five", string(s.Record().Part))
			}
			require.NoError(t, s.Close())
			requireWhole(t, s.path)
		})
	}
}

func otherState(t *testing.T, dir string) {
	w := newWorld(t, 9, 2)
	require.NoError(t, w.s.Close())
	data, err := os.ReadFile(w.s.path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "state.db"), data, 0o600))
}

func stateGone(t *testing.T, dir string) {
	require.NoError(t, os.Remove(filepath.Join(dir, "state.db")))
}

// With a sync in every transaction a crash of the machine takes nothing.
func TestSyncAlwaysNeedsNoRecovery(t *testing.T) {
	o := boot("a")
	o.Sync = SyncAlways
	dir := died(t, o)
	childCalled.Store(false)
	defer childCalled.Store(true)
	o = boot("b")
	o.Sync = SyncAlways
	s, err := Open(filepath.Join(dir, "state.db"), o)
	require.NoError(t, err)
	require.EqualValues(t, 7, metaOf(t, s).AppliedIndex)
	require.NoError(t, s.Close())
}

// A clean record whose file was exchanged since says nothing about the new one.
func TestExchangedFileIsVerified(t *testing.T) {
	dir := died(t, boot("a"))
	path := filepath.Join(dir, "state.db")
	s, err := Open(path, boot("a"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	otherState(t, dir)
	childCalled.Store(false)
	_, err = Open(path, boot("a"))
	childCalled.Store(true)
	require.ErrorIs(t, err, ErrNoChild)
	_, err = Open(path, boot("a"))
	require.ErrorContains(t, err, "older than its records")
}

// TestRecordOfTheStateInPlaceStays: an install that ended before the rename leaves a
// record, the newest, of a state that is not there. The next one must take its place.
func TestRecordOfTheStateInPlaceStays(t *testing.T) {
	dir := died(t, boot("a"))
	path := filepath.Join(dir, "state.db")
	r, _, err := openRecords(path, 0, disk{})
	require.NoError(t, err)
	slots, err := readSlots(r.file)
	require.NoError(t, err)
	newest := *slots[1-r.next]
	foreign := newest
	foreign.Index, foreign.Part = 99, []byte("ninety-nine")
	require.NoError(t, r.write(&foreign))
	require.NoError(t, r.Close())

	opened := boot("a")
	seen := false
	opened.Watch = func(c Change) error {
		if c.Op == OpWrite && c.Path == recordPath(path) && !seen {
			seen = true
			got, err := readFileSlots(c.Path)
			require.NoError(t, err)
			at := int(c.Off / recordSlotSize)
			require.Equal(t, uint64(99), got[at].Index, "the one that is written over")
			require.Equal(t, newest.sequence, got[1-at].sequence)
		}
		return nil
	}
	s, err := Open(path, opened)
	require.NoError(t, err)
	require.True(t, seen)
	require.EqualValues(t, 7, s.Record().Index)
	require.Equal(t, "five", string(s.Record().Part))
	s.disk.watch = nil
	require.NoError(t, s.Close())
}

func readFileSlots(path string) ([2]*Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return [2]*Record{}, err
	}
	defer f.Close()
	return readSlots(f)
}

// TestFailedSyncEndsTheStore: the kernel may have dropped what it could not write.
func TestFailedSyncEndsTheStore(t *testing.T) {
	w := newWorldAt(t, boot("a"))
	update(t, w.s, func(tx *WriteTx) { w.commit(tx, 3); require.NoError(t, tx.SetApplied(1, 1)) })
	p, err := w.s.Point(nil)
	require.NoError(t, err)
	require.NoError(t, w.s.file.Close()) // what an fsync says that fails
	require.ErrorIs(t, p.Commit(nil), ErrSync)
	require.ErrorIs(t, w.s.Update(func(*WriteTx) error { return nil }), ErrSync)
	_, err = w.s.Snapshot()
	require.Error(t, err)
	records, err := readFileSlots(recordPath(w.s.path))
	require.NoError(t, err)
	newest := records[0]
	if records[1].sequence > newest.sequence {
		newest = records[1]
	}
	require.Empty(t, newest.boot, "not even a process of this boot may trust the file")
	_ = w.s.Close()
	s, err := Open(w.s.path, boot("a"))
	require.NoError(t, err)
	require.Zero(t, metaOf(t, s).AppliedIndex, "back to the last sync point")
	w.s = s
}

func TestRecordsAreReadOrNot(t *testing.T) {
	r := Record{Index: 3, Term: 4, Part: []byte("part"), sequence: 9, clean: true, boot: "b"}
	b := r.append(nil)
	got, ok := decodeRecord(append(b, 0, 0))
	require.True(t, ok)
	require.Equal(t, r, got)
	for i := range b {
		_, ok := decodeRecord(b[:i])
		require.False(t, ok, "cut at %d", i)
		bad := append([]byte(nil), b...)
		bad[i] ^= 0x20
		_, ok = decodeRecord(bad)
		require.False(t, ok, "byte %d", i)
	}
}

func FuzzRecord(f *testing.F) {
	r := Record{Index: 3, Term: 4, Part: []byte("part"), sequence: 9, clean: true, boot: "b"}
	f.Add(r.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := decodeRecord(b); ok {
			require.Equal(t, b[:len(r.append(nil))], r.append(nil))
		}
	})
}
