package wal

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// damagedLog is a log of several segments that was killed, how far its last segment
// goes, and where the last append begins there.
func damagedLog(t *testing.T) (dir string, list *memory, tail string, last, end int64) {
	t.Helper()
	dir, list = t.TempDir(), &memory{}
	l := open(t, dir, list)
	for i := uint64(1); i < 100; i += 10 {
		require.NoError(t, l.StoreLogs(entriesOf(i, i+9, 1)))
	}
	require.NoError(t, l.DeleteOldest(25))
	require.NoError(t, l.DeleteNewest(91))
	for i := uint64(91); i < 99; i += 2 {
		last = l.segments[len(l.segments)-1].file.synced
		require.NoError(t, l.StoreLogs(entriesOf(i, i+1, 2)))
	}
	s := l.segments[len(l.segments)-1]
	require.Greater(t, len(l.segments), 3)
	return image(t, dir), &memory{data: list.data}, s.name(), last, s.file.synced
}

// reopen is the log after something has happened to its files: its contents, or why
// it is refused, by Open or by Check.
func reopen(t *testing.T, dir string, list *memory) ([]*raft.Log, error) {
	t.Helper()
	checked, err := Open(dir, list, Options{ReadOnly: true})
	if err == nil {
		err = errors.Join(checked.Check(), checked.Close())
	}
	if err != nil {
		require.ErrorIs(t, err, ErrDamaged)
		return nil, err
	}
	l := open(t, image(t, dir), &memory{data: list.data})
	return contents(t, l), nil
}

// A crash of the machine leaves any part of the append that was under way; all before
// it is there, and the log goes on.
func TestTornAppendIsDropped(t *testing.T) {
	dir, list, tail, last, end := damagedLog(t)
	whole, err := os.ReadFile(filepath.Join(dir, tail))
	require.NoError(t, err)
	acknowledged := append(entriesOf(26, 90, 1), entriesOf(91, 96, 2)...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		torn := append([]byte(nil), whole...)
		for at := last; at < end; at += 64 { // what a disk writes at once, for a test
			switch r.IntN(3) {
			case 0:
				clear(torn[at:min(at+64, end)])
			case 1:
				for i := at; i < min(at+64, end); i++ {
					torn[i] = byte(r.Uint32())
				}
			}
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, tail), torn, 0o600))
		got, err := reopen(t, dir, list)
		require.NoError(t, err)
		if len(got) > len(acknowledged) {
			requireSame(t, append(acknowledged, entriesOf(97, 98, 2)...), got)
			continue
		}
		requireSame(t, acknowledged, got)
		again, list := image(t, dir), &memory{data: list.data}
		l := open(t, again, list)
		require.NoError(t, l.StoreLogs(entriesOf(97, 97, 3))) // shorter than what was torn
		require.NoError(t, l.Close())
		l = open(t, again, list)
		requireSame(t, append(acknowledged, entriesOf(97, 97, 3)...), contents(t, l))
		s := l.segments[len(l.segments)-1]
		data, err := s.read(again)
		require.NoError(t, err)
		found, err := s.scan(data)
		require.NoError(t, err)
		require.False(t, found.torn, "nothing is left of it")
	}
}

// Whatever byte is changed, the log says that it is damaged, or is what it was. Only
// where nothing was written after an append that a crash followed can that append be
// taken for torn: never once the log was closed.
func TestFlippedBytes(t *testing.T) {
	dir, list, tail, last, _ := damagedLog(t)
	closed, closedList := image(t, dir), &memory{data: list.data}
	l, err := Open(closed, closedList, Options{SegmentBytes: smallSegment})
	require.NoError(t, err)
	all := contents(t, l)
	require.NoError(t, l.Close())
	for name, c := range map[string]struct {
		dir  string
		list *memory
	}{"killed": {dir, list}, "closed": {closed, closedList}} {
		t.Run(name, func(t *testing.T) {
			damaged := 0
			for file, data := range readAll(t, c.dir) {
				for at := 0; at < len(data); at += 1 + len(data)/400 {
					flipped := []byte(data)
					flipped[at] ^= 1 << (at % 8)
					require.NoError(t, os.WriteFile(filepath.Join(c.dir, file), flipped, 0o600))
					got, err := reopen(t, c.dir, c.list)
					switch {
					case err != nil:
						damaged++
					case name == "killed" && file == tail && at >= int(last) && len(got) == len(all)-2:
						requireSame(t, all[:len(all)-2], got)
					default:
						requireSame(t, all, got)
					}
				}
				require.NoError(t, os.WriteFile(filepath.Join(c.dir, file), []byte(data), 0o600))
			}
			t.Logf("%d flips were damage", damaged)
			require.Greater(t, damaged, 300)
		})
	}
}

func TestMissingAndCutFiles(t *testing.T) {
	dir, list, tail, last, _ := damagedLog(t)
	for name, data := range readAll(t, dir) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Remove(path))
		_, err := reopen(t, dir, list)
		require.ErrorIs(t, err, ErrDamaged)
		for _, n := range []int64{0, 31, last, int64(len(data)) - 1} {
			require.NoError(t, os.WriteFile(path, []byte(data)[:n], 0o600))
			_, err = reopen(t, dir, list)
			require.ErrorIs(t, err, ErrDamaged)
		}
		require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
	}
	_, err := Open(dir, &memory{}, Options{})
	require.ErrorIs(t, err, ErrListLost)
	for _, bad := range []string{"{", "{}", `{"format":1,"segments":[{"last":0},{"last":0}]}`, `{"format":1,"segments":[{"last":5},{"first":7}]}`} {
		_, err := reopen(t, dir, &memory{data: []byte(bad)})
		require.ErrorIs(t, err, ErrDamaged)
	}
	_, err = Open(dir, &memory{data: []byte(`{"format":2,"segments":[{}]}`)}, Options{})
	require.ErrorContains(t, err, "has format 2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, tail), make([]byte, smallSegment), 0o600))
	_, err = reopen(t, dir, list)
	require.NoError(t, err, "a segment that was never closed and lost all it had looks like a new one")
}

// A list that was put back from an old copy knows nothing of later segments: they are not
// what a crash left.
func TestOldListIsRefusedAndNothingIsRemoved(t *testing.T) {
	dir, list := t.TempDir(), &memory{}
	l := open(t, dir, list)
	old := &memory{data: list.data}
	for i := uint64(1); i < 100; i += 10 {
		require.NoError(t, l.StoreLogs(entriesOf(i, i+9, 1)))
	}
	require.NoError(t, l.Close())
	files := readAll(t, dir)
	require.Greater(t, len(files), 3)
	for _, o := range []Options{{}, {ReadOnly: true}} {
		_, err := Open(dir, old, o)
		require.ErrorIs(t, err, ErrListLost)
		require.Equal(t, files, readAll(t, dir))
	}
	requireSame(t, entriesOf(1, 100, 1), contents(t, open(t, dir, list)))
}
