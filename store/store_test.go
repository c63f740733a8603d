package store

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

func TestNewStore(t *testing.T) {
	s := openTest(t)
	view(t, s, func(tx *ReadTx) {
		require.Equal(t, Meta{SchemaVersion: SchemaVersion, FeatureLevel: 1}, tx.Meta())
	})
	info, err := os.Stat(s.Path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestMetaSurvivesReopen(t *testing.T) {
	s := openTest(t)
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.SetApplied(12, 3))
		tx.SetClock(900)
		tx.SetClock(800) // never goes back
		tx.SetClusterID([16]byte{4})
		require.EqualValues(t, 1, tx.NextFileID())
	})
	reopen(t, s)
	view(t, s, func(tx *ReadTx) {
		require.Equal(t, Meta{SchemaVersion: SchemaVersion, FeatureLevel: 1, AppliedIndex: 12, AppliedTerm: 3, LastClockMs: 900,
			ClusterID: [16]byte{4}, LastFileID: 1}, tx.Meta())
	})
}

func TestFailedUpdateLeavesNothing(t *testing.T) {
	w := newWorld(t, 1, 2)
	update(t, w.s, func(tx *WriteTx) { w.commit(tx, 50) })
	var before, after Meta
	view(t, w.s, func(tx *ReadTx) { before = tx.Meta() })
	boom := errors.New("boom")
	err := w.s.Update(func(tx *WriteTx) error {
		other := *w
		other.logs = []*plainLog{{key: w.logs[0].key}}
		other.commit(tx, 200)
		require.NoError(t, tx.SetApplied(99, 9))
		return boom
	})
	require.ErrorIs(t, err, boom)
	delete(w.refs, before.LastFileID+1)
	view(t, w.s, func(tx *ReadTx) {
		after = tx.Meta()
		for _, p := range w.logs {
			w.verify(tx, p)
		}
	})
	require.Equal(t, before, after)
}

func TestClosed(t *testing.T) {
	s := openTest(t)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.View(func(*ReadTx) error { return nil }), ErrClosed)
	require.ErrorIs(t, s.Update(func(*WriteTx) error { return nil }), ErrClosed)
}

func TestLocked(t *testing.T) {
	s := openTest(t)
	_, err := Open(s.Path(), Options{LockTimeout: 10 * time.Millisecond})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, s.Path())
}

func TestOpenRefuses(t *testing.T) {
	raw := func(t *testing.T, change func(*bbolt.Tx) error) string {
		s, err := Open(filepath.Join(t.TempDir(), "state.db"), Options{Sync: SyncNever})
		require.NoError(t, err)
		require.NoError(t, s.db.Update(change))
		require.NoError(t, s.Close())
		return s.Path()
	}
	t.Run("a missing bucket", func(t *testing.T) {
		path := raw(t, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("fences")) })
		_, err := Open(path, Options{})
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "fences")
	})
	t.Run("a flipped bit in the meta row", func(t *testing.T) {
		path := raw(t, func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("meta"))
			row := append([]byte(nil), b.Get(metaKey)...)
			row[3] ^= 1
			return b.Put(metaKey, row)
		})
		_, err := Open(path, Options{})
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("another layout", func(t *testing.T) {
		path := raw(t, func(tx *bbolt.Tx) error {
			payload := appendMeta(nil, &Meta{SchemaVersion: SchemaVersion + 1})
			return tx.Bucket([]byte("meta")).Put(metaKey, sealRow(metaKey, payload))
		})
		_, err := Open(path, Options{})
		require.ErrorIs(t, err, ErrSchema)
	})
	t.Run("another kind of file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		require.NoError(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
		_, err := Open(path, Options{})
		require.ErrorIs(t, err, ErrCorrupt)
	})
	t.Run("a directory that is not there", func(t *testing.T) {
		_, err := Open(filepath.Join(t.TempDir(), "no", "state.db"), Options{})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestMaxBytes(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "state.db"), Options{Sync: SyncNever, InitialMmapBytes: 1 << 16, MaxBytes: 1 << 20})
	require.NoError(t, err)
	defer s.Close()
	fill := func() error {
		return s.Update(func(tx *WriteTx) error {
			for range 100 {
				key := string(make([]byte, 900)) + string(appendID(nil, tx.NextFileID()))
				if err := tx.PutFence(key, 1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for err == nil {
		err = fill()
	}
	require.ErrorIs(t, err, bolterrors.ErrMaxSizeReached)
	var before Meta
	view(t, s, func(tx *ReadTx) { before = tx.Meta() })
	require.Positive(t, before.Totals.Fences)
	require.Error(t, fill())
	// What frees rows still fits in the pages that are there.
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.DropFence(string(make([]byte, 900))+string(appendID(nil, 1))))
	})
}

// Rows live in buffers that the next transaction uses again; what was written
// must not change with them.
func TestArenaIsUsedAgain(t *testing.T) {
	w := newWorld(t, 3, 5)
	for i := range 60 {
		update(t, w.s, func(tx *WriteTx) {
			for range i {
				w.commit(tx, 1+w.rand.IntN(30))
			}
		})
	}
	reopen(t, w.s)
	view(t, w.s, func(tx *ReadTx) {
		for _, p := range w.logs {
			w.verify(tx, p)
		}
		for id, refs := range w.refs {
			f, ok, err := tx.File(id)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, refs, f.BatchCount)
		}
	})
}

func TestArena(t *testing.T) {
	var a arena
	x := append(a.buf(10), "0123456789"...)
	y := append(a.buf(10), "abcde"...)
	a.took(x) // not the latest: nothing to give back
	z := append(a.buf(4), "wxyz"...)
	a.took(z)
	require.Equal(t, "0123456789abcdewxyz", string(x)+string(y)+string(z))
	used := len(a.chunks[0])
	a.took(append(a.buf(100), "q"...))
	require.Equal(t, used+1, len(a.chunks[0]), "what was not needed is given back")
	a.took(append(a.buf(2), "grown beyond"...))
	big := a.buf(arenaChunk + 1)
	require.Equal(t, arenaChunk+1, cap(big))
	require.Len(t, a.chunks, 2)
	for range 2 * maxIdleArenaChunks {
		a.buf(arenaChunk)
	}
	a.reset()
	require.Len(t, a.chunks, maxIdleArenaChunks)
	require.Equal(t, "0123456789abcdewxyz", string(x)+string(y)+string(z))
}

// A state could not be opened again at once: a child that its process had begun to start
// held the lock for a moment longer.
func TestLockEndsWithTheStore(t *testing.T) {
	options := Options{Sync: SyncInterval, LockTimeout: time.Nanosecond}
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(path, options)
	require.NoError(t, err)
	child, err := syscall.Dup(int(s.records.file.Fd()))
	require.NoError(t, err)
	defer syscall.Close(child)
	require.NoError(t, s.Close())
	s, err = Open(path, options)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
