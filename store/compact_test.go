package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompact(t *testing.T) {
	dir := died(t, boot("a"))
	path := filepath.Join(dir, "state.db")
	s, err := Open(path, boot("a"))
	require.NoError(t, err)
	w := &world{t: t, rand: newWorld(t, 3, 1).rand, s: s, refs: map[uint64]int64{}, now: 2_000_000}
	id := topicID(9)
	update(t, s, func(tx *WriteTx) {
		require.NoError(t, tx.PutTopic(id, Topic{Name: "more", Origin: OriginDiskless}))
		for i := range 4 {
			w.logs = append(w.logs, &plainLog{key: LogKey{id, int32(i)}})
			require.NoError(t, tx.CreateLog(w.logs[i].key, NewLog(0, 0)))
		}
	})
	for range 200 {
		update(t, s, func(tx *WriteTx) { w.commit(tx, 30); require.NoError(t, tx.SetApplied(tx.Meta().AppliedIndex+1, 1)) })
	}
	for _, l := range w.logs {
		update(t, s, func(tx *WriteTx) { w.trim(tx, l, len(l.batches)-10) })
	}
	want := metaOf(t, s)
	require.NoError(t, s.Close())

	before, after, err := Compact(path, boot("b"))
	require.NoError(t, err)
	require.Less(t, after, before/2)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, after, info.Size())
	require.NoFileExists(t, installPath(path))
	require.Equal(t, want.Digest.String(), requireWhole(t, path).Digest)

	s, err = Open(path, boot("c"))
	require.NoError(t, err)
	require.Equal(t, want, metaOf(t, s))
	require.Equal(t, "five", string(s.Record().Part), "the owner's part is kept")
	w.s = s
	update(t, s, func(tx *WriteTx) { w.commit(tx, 30) })
	require.NoError(t, s.Close())
	requireWhole(t, path)

	_, _, err = Compact(path+"x", boot("a"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoFileExists(t, path+"x")
}

// The first mapping does not bound the copy: a state may outgrow it (64 GiB) when state.max.bytes allows.
func TestCompactOfAStateLargerThanItsFirstMapping(t *testing.T) {
	const mapped = 32 << 10
	w := newWorld(t, 1, 4)
	for range 100 {
		update(t, w.s, func(tx *WriteTx) { w.commit(tx, 30) })
	}
	want := metaOf(t, w.s)
	require.NoError(t, w.s.Close())
	_, after, err := Compact(w.s.path, Options{Sync: SyncInterval, InitialMmapBytes: mapped})
	require.NoError(t, err)
	require.Greater(t, after, int64(2*mapped))
	require.Equal(t, want.Digest.String(), requireWhole(t, w.s.path).Digest)
}

func TestCompactOfAFileInUse(t *testing.T) {
	w := newWorldAt(t, boot("a"))
	o := boot("a")
	o.LockTimeout = 1
	_, _, err := Compact(w.s.path, o)
	require.ErrorIs(t, err, ErrLocked)
}
