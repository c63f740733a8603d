package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// memory is a list that outlives a log, as if it were on disk.
type memory struct {
	data []byte
	fail error
}

func (m *memory) Load() ([]byte, error) { return m.data, nil }

func (m *memory) Save(data []byte) error {
	if m.fail == nil {
		m.data = data
	}
	return m.fail
}

const smallSegment = 4 << 10

func open(t *testing.T, dir string, list List) *Log {
	t.Helper()
	l, err := Open(dir, list, Options{SegmentBytes: smallSegment})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// entriesOf are entries whose sizes and contents go by index and term.
func entriesOf(first, last, term uint64) []*raft.Log {
	var entries []*raft.Log
	for i := first; i <= last; i++ {
		entry := &raft.Log{Index: i, Term: term, Type: raft.LogType(i % 5), Data: make([]byte, i*37%300)}
		for j := range entry.Data {
			entry.Data[j] = byte(i + term + uint64(j))
		}
		if i%3 == 0 {
			entry.Extensions = []byte{1, byte(term)}
		}
		if i%4 != 0 {
			entry.AppendedAt = time.Unix(int64(i), int64(term))
		}
		entries = append(entries, entry)
	}
	return entries
}

// contents reads all that a log has.
func contents(t *testing.T, l *Log) (all []*raft.Log) {
	t.Helper()
	first, err := l.FirstIndex()
	require.NoError(t, err)
	last, err := l.LastIndex()
	require.NoError(t, err)
	require.ErrorIs(t, l.GetLog(last+1, new(raft.Log)), raft.ErrLogNotFound)
	if first > 0 {
		require.ErrorIs(t, l.GetLog(first-1, new(raft.Log)), raft.ErrLogNotFound)
	}
	for i := first; i > 0 && i <= last; i++ {
		entry := new(raft.Log)
		require.NoError(t, l.GetLog(i, entry))
		all = append(all, entry)
	}
	return all
}

func requireSame(t *testing.T, want, got []*raft.Log) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, want[i].AppendedAt.Equal(got[i].AppendedAt))
		require.Equal(t, string(want[i].Data), string(got[i].Data))
		w, g := *want[i], *got[i]
		w.AppendedAt, g.AppendedAt, w.Data, g.Data = time.Time{}, time.Time{}, nil, nil
		require.Equal(t, w, g)
	}
}

// image is a copy of a directory, as a crash of the process would leave it.
func image(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// Whatever is done to a log, and however it ends, what it says it did is there.
func TestLogIsWhatWasDoneToIt(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			dir, list, want := t.TempDir(), &memory{}, []*raft.Log(nil)
			l := open(t, dir, list)
			next, term := 1+r.Uint64N(3)*100, uint64(1)
			for range 80 {
				switch first := next - uint64(len(want)); r.IntN(8) {
				case 0:
					last := first + r.Uint64N(40)
					require.NoError(t, l.DeleteOldest(last))
					want = want[min(uint64(len(want)), last-first+1):]
				case 1:
					term++
					from := max(first, next-min(next, r.Uint64N(40)))
					require.NoError(t, l.DeleteNewest(from))
					want, next = want[:from-first], from
				case 2:
					require.NoError(t, l.Close())
					l = open(t, dir, list)
				case 3: // the process is killed
					dir, list = image(t, dir), &memory{data: list.data}
					l = open(t, dir, list)
				case 4:
					list.fail = errors.New("no space")
					_, _ = l.DeleteOldest(first+r.Uint64N(20)), l.DeleteNewest(next-1)
					list.fail = nil
				default:
					batch := entriesOf(next, next+r.Uint64N(12), term)
					require.NoError(t, l.StoreLogs(batch))
					want, next = append(want, batch...), next+uint64(len(batch))
				}
				requireSame(t, want, contents(t, l))
			}
			require.NoError(t, l.Check())
			names, err := files{}.ListDir(dir)
			require.NoError(t, err)
			require.LessOrEqual(t, len(names), len(l.segments)+1)
			require.NoError(t, l.Close())
			l = open(t, dir, list)
			names, err = files{}.ListDir(dir)
			require.NoError(t, err)
			require.Len(t, names, len(l.segments))
		})
	}
}

// raft-wal refuses all appends to a log whose process ended between the append that
// filled a segment and the change of the list.
func TestFullSegmentIsFollowed(t *testing.T) {
	for _, killed := range []bool{false, true} {
		dir, list := t.TempDir(), &memory{}
		l := open(t, dir, list)
		full, next := false, uint64(1)
		for ; !full; next++ {
			require.NoError(t, l.StoreLogs(entriesOf(next, next, 1)))
			var err error
			full, _, err = l.segments[0].writer.Sealed()
			require.NoError(t, err)
		}
		if killed {
			dir = image(t, dir)
		} else {
			require.NoError(t, l.Close())
		}
		l = open(t, dir, list)
		require.NoError(t, l.StoreLogs(entriesOf(next, next+5, 1)))
		requireSame(t, entriesOf(1, next+5, 1), contents(t, l))
		require.Len(t, l.segments, 2)
		require.Nil(t, l.segments[0].file, "its writer is let go")
	}
}

// raft appends what follows a snapshot to a log that ends before it.
func TestLogBeginsAnewBehindAHole(t *testing.T) {
	l := open(t, t.TempDir(), &memory{})
	require.NoError(t, l.StoreLogs(entriesOf(1, 10, 1)))
	require.NoError(t, l.StoreLogs(entriesOf(21, 30, 2)))
	requireSame(t, entriesOf(21, 30, 2), contents(t, l))
	require.Error(t, l.StoreLogs(entriesOf(30, 31, 2)))
	holed := entriesOf(31, 33, 2)
	require.Error(t, l.StoreLogs([]*raft.Log{holed[0], holed[2]}))
	requireSame(t, entriesOf(21, 30, 2), contents(t, l))
}

func TestReadOnlyLogChangesNothing(t *testing.T) {
	dir, list := t.TempDir(), &memory{}
	l := open(t, dir, list)
	require.NoError(t, l.StoreLogs(entriesOf(1, 60, 1)))
	dir = image(t, dir)
	tail := filepath.Join(dir, l.segments[len(l.segments)-1].name())
	spoil(t, tail, l.segments[len(l.segments)-1].file.synced, 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "00000000000000000001-00000000000000ff.wal"), nil, 0o600))
	before := readAll(t, dir)
	l, err := Open(dir, list, Options{ReadOnly: true})
	require.NoError(t, err)
	requireSame(t, entriesOf(1, 60, 1), contents(t, l))
	require.NoError(t, l.Check())
	require.NoError(t, l.Close())
	require.Equal(t, before, readAll(t, dir))
	open(t, dir, list)
	require.NotEqual(t, before, readAll(t, dir))
}

func TestClosedLog(t *testing.T) {
	l, err := Open(t.TempDir(), &memory{}, Options{})
	require.NoError(t, err)
	require.NoError(t, l.StoreLogs(entriesOf(1, 2, 1)))
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.GetLog(1, new(raft.Log)), ErrClosed)
	require.ErrorIs(t, l.StoreLogs(entriesOf(3, 4, 1)), ErrClosed)
	require.ErrorIs(t, l.DeleteOldest(1), ErrClosed)
}

// A sync that failed says nothing of what it was for: nothing is appended after it,
// and its error is not taken for that of a write that found no space.
func TestLogIsNotWrittenToAfterAFailedSync(t *testing.T) {
	dir, list := t.TempDir(), &memory{}
	l, err := Open(dir, list, Options{})
	require.NoError(t, err)
	require.NoError(t, l.StoreLogs(entriesOf(1, 2, 1)))
	tail := l.segments[0].file
	good := tail.File
	tail.File, err = os.OpenFile(os.DevNull, os.O_RDWR, 0) // takes everything, and cannot be synced
	require.NoError(t, err)
	err = l.StoreLogs(entriesOf(3, 4, 1))
	require.ErrorContains(t, err, "sync ")
	require.NotErrorAs(t, err, new(*fs.PathError))
	require.NoError(t, tail.File.Close())
	tail.File = good
	for _, refused := range []error{l.StoreLogs(entriesOf(3, 4, 1)), l.DeleteNewest(2), l.DeleteOldest(1)} {
		require.ErrorContains(t, refused, "not written to after sync ")
	}
	requireSame(t, entriesOf(1, 2, 1), contents(t, l))
	require.NoError(t, l.Close())
}

func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = string(data)
	}
	return all
}

// spoil writes n bytes that are not zero.
func spoil(t *testing.T, path string, at int64, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	garbage := make([]byte, n)
	for i := range garbage {
		garbage[i] = byte(1 + i)
	}
	_, err = f.WriteAt(garbage, at)
	require.NoError(t, errors.Join(err, f.Close()))
}
