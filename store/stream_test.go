package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// streamOf is the stream of a store's present state.
func streamOf(t testing.TB, s *Store) []byte {
	t.Helper()
	snap, err := s.Snapshot()
	require.NoError(t, err)
	defer snap.Release()
	var b bytes.Buffer
	n, err := io.Copy(&b, snap)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	require.Equal(t, snap.Size(), n)
	return b.Bytes()
}

func metaOf(t testing.TB, s *Store) (m Meta) {
	t.Helper()
	view(t, s, func(tx *ReadTx) { m = tx.Meta() })
	return m
}

// twoWorlds are a sender at index 70 of term 4 and a receiver with a state of its own.
func twoWorlds(t testing.TB) (from, to *world) {
	from, to = newWorld(t, 1, 5), newWorld(t, 2, 3)
	for range 40 {
		update(t, from.s, func(tx *WriteTx) { from.commit(tx, 30); require.NoError(t, tx.SetApplied(70, 4)) })
	}
	update(t, to.s, func(tx *WriteTx) { to.commit(tx, 30); require.NoError(t, tx.SetApplied(9, 1)) })
	return from, to
}

func TestSnapshotAndInstall(t *testing.T) {
	from, to := twoWorlds(t)
	snap, err := from.s.Snapshot()
	require.NoError(t, err)
	require.EqualValues(t, 70, snap.Index())
	require.EqualValues(t, 4, snap.Term())
	want := metaOf(t, from.s)
	// What is applied while the snapshot is written does not show in it.
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(&writeSlowly{w, func() {
			update(t, from.s, func(tx *WriteTx) { from.commit(tx, 30); require.NoError(t, tx.SetApplied(71, 4)) })
		}}, snap)
		w.CloseWithError(err)
	}()
	require.NoError(t, install(to.s, r))
	snap.Release()
	snap.Release()
	_, err = io.Copy(io.Discard, snap)
	require.ErrorIs(t, err, ErrClosed)
	require.Equal(t, want, metaOf(t, to.s))
	require.NoFileExists(t, installPath(to.s.path))
	// The installed state is live: written, reopened, read.
	installed := &world{t: t, rand: from.rand, s: to.s, logs: []*plainLog{{key: from.logs[3].key}}, refs: map[uint64]int64{}}
	update(t, to.s, func(tx *WriteTx) { installed.commit(tx, 1) })
	reopen(t, to.s)
	require.Equal(t, want.Totals.Batches+1, metaOf(t, to.s).Totals.Batches)
	// So is that of the sender.
	view(t, from.s, func(tx *ReadTx) {
		for _, p := range from.logs {
			from.verify(tx, p)
		}
	})
}

// writeSlowly calls between before every write.
type writeSlowly struct {
	w       io.Writer
	between func()
}

func (s *writeSlowly) Write(p []byte) (int, error) {
	s.between()
	return s.w.Write(p)
}

func TestInstallRefusesAStreamCutShort(t *testing.T) {
	from, to := twoWorlds(t)
	stream, before := streamOf(t, from.s), metaOf(t, to.s)
	cuts := []int{0, 1, 7, 39, 40, 41, 4095, 4096, len(stream) - 1, len(stream) - 32, len(stream) - 40, len(stream) - 41}
	for range 40 {
		cuts = append(cuts, rand.IntN(len(stream)))
	}
	for _, n := range cuts {
		err := install(to.s, bytes.NewReader(stream[:n]))
		require.ErrorIs(t, err, ErrStream, "cut at %d", n)
		require.NoFileExists(t, installPath(to.s.path))
	}
	require.Equal(t, before, metaOf(t, to.s))
	broken := errors.New("connection reset")
	err := install(to.s, io.MultiReader(bytes.NewReader(stream[:9000]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrStream)
	require.NoError(t, install(to.s, iotest.OneByteReader(bytes.NewReader(stream[:]))))
}

func TestInstallRefusesAnAlteredStream(t *testing.T) {
	from, to := twoWorlds(t)
	stream, before := streamOf(t, from.s), metaOf(t, to.s)
	at := []int{0, 8, 12, 20, 28, 35, 36, 39, 40, len(stream) - 1, len(stream) - 32, len(stream) - 33, len(stream) - 40}
	for range 60 {
		at = append(at, rand.IntN(len(stream)))
	}
	for _, i := range at {
		altered := bytes.Clone(stream)
		altered[i] ^= 1 << rand.IntN(8)
		require.ErrorIs(t, install(to.s, bytes.NewReader(altered)), ErrStream, "byte %d", i)
	}
	require.Equal(t, before, metaOf(t, to.s))
}

// handmade is a stream with the right sums whatever it holds.
func handmade(info StreamInfo, file []byte) []byte {
	info.Size = int64(len(file))
	b := append(info.header(), file...)
	sum := sha256.Sum256(b)
	return append(binary.BigEndian.AppendUint64(b, uint64(len(file))), sum[:]...)
}

func TestInstallRefusesADamagedSender(t *testing.T) {
	from, to := twoWorlds(t)
	before := metaOf(t, to.s)
	stream := streamOf(t, from.s)
	file := stream[streamHeaderSize : len(stream)-streamTrailerSize]
	info := StreamInfo{Index: 70, Term: 4}
	install := func(info StreamInfo, file []byte) error {
		return install(to.s, bytes.NewReader(handmade(info, file)))
	}
	require.ErrorContains(t, install(StreamInfo{Index: 71, Term: 4}, file), "announced index 71")
	require.ErrorContains(t, install(StreamInfo{Index: 70, Term: 5}, file), "of term 5")
	require.ErrorIs(t, install(info, nil), ErrCorrupt)
	require.ErrorIs(t, install(info, make([]byte, 1<<16)), ErrCorrupt)
	require.ErrorIs(t, install(info, file[:len(file)-4096]), ErrCorrupt)
	bad := bytes.Clone(file)
	path := filepath.Join(t.TempDir(), "state.db")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	used, _ := usedPages(t, path)
	bad[used[0]*4096] ^= 1 // the number of a page
	require.ErrorIs(t, install(info, bad), ErrCorrupt)
	require.Equal(t, before, metaOf(t, to.s))
	require.NoError(t, install(info, file))
}

// A crash while a stream was being received leaves a part of it beside.
func TestOpenRemovesWhatACrashLeft(t *testing.T) {
	from, to := twoWorlds(t)
	stream, before := streamOf(t, from.s), metaOf(t, to.s)
	require.NoError(t, os.WriteFile(installPath(to.s.path), stream[streamHeaderSize:50_000], 0o600))
	require.NoError(t, to.s.Close())
	s, err := Open(to.s.path, Options{Sync: SyncNever})
	require.NoError(t, err)
	require.NoFileExists(t, installPath(to.s.path))
	require.Equal(t, before, metaOf(t, s))
	// An install that was cut off in this process starts anew, too.
	require.NoError(t, os.WriteFile(installPath(to.s.path), stream[:9], 0o600))
	require.NoError(t, install(s, bytes.NewReader(stream)))
	require.NoError(t, s.Close())
}

// A simulated cluster stood still: a file that was replaced while a snapshot of it was
// being sent was waited for with a mutex, and simulated time passes only while all wait
// for each other or for time.
func TestReplacedFileIsWaitedForInSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := twoWorlds(t)
		snap, err := to.s.Snapshot()
		require.NoError(t, err)
		require.NoError(t, install(to.s, bytes.NewReader(streamOf(t, from.s))))
		time.Sleep(time.Second)
		snap.Release()
		require.NoError(t, to.s.Close())
		require.NoError(t, from.s.Close())
	})
}

// The same, when the store is closed while a snapshot is being sent.
func TestCloseWaitsForSnapshotsInSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := twoWorlds(t)
		snap, err := to.s.Snapshot()
		require.NoError(t, err)
		released := false
		go func() {
			time.Sleep(time.Second)
			require.ErrorIs(t, to.s.View(nil), ErrClosed)
			released = true
			snap.Release()
		}()
		require.NoError(t, to.s.Close())
		require.True(t, released)
		require.NoError(t, from.s.Close())
	})
}

// A state that could not be put in place kept the lock of the one before.
func TestCloseAfterAFailedInstall(t *testing.T) {
	from, _ := twoWorlds(t)
	broken := false
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := Open(path, Options{Watch: func(c Change) error {
		if broken && c.Op == OpSync {
			return errors.New("EIO")
		}
		return nil
	}})
	require.NoError(t, err)
	r, err := s.Receive()
	require.NoError(t, err)
	_, err = r.Write(streamOf(t, from.s))
	require.NoError(t, err)
	_, err = r.Finish()
	require.NoError(t, err)
	broken = true
	require.ErrorContains(t, s.Install(r, nil), "EIO")
	broken = false
	require.NoError(t, s.Close())
	s, err = Open(path, Options{LockTimeout: time.Nanosecond})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// Of two states that were received at once, one took the file from under the other,
// which was then put in place as far as the first had come.
func TestOneStateIsReceivedAtATime(t *testing.T) {
	from, to := twoWorlds(t)
	stream, before := streamOf(t, from.s), metaOf(t, to.s)
	whole := func() *Receiver {
		r, err := to.s.Receive()
		require.NoError(t, err)
		_, err = r.Write(stream)
		require.NoError(t, err)
		_, err = r.Finish()
		require.NoError(t, err)
		return r
	}
	first := whole()
	_, err := to.s.Receive()
	require.ErrorIs(t, err, ErrReceiving)
	first.Abort()
	require.ErrorContains(t, to.s.Install(first, nil), "given up")
	require.Equal(t, before, metaOf(t, to.s))

	installed := whole()
	require.NoError(t, to.s.Install(installed, nil))
	require.EqualValues(t, 70, metaOf(t, to.s).AppliedIndex)
	next := whole()
	installed.Abort() // the file is no longer its own
	first.Abort()
	require.FileExists(t, installPath(to.s.path))
	require.ErrorContains(t, to.s.Install(installed, nil), "installed or given up")
	require.NoError(t, to.s.Install(next, nil))
}

func TestSnapshotOutlivesAnInstall(t *testing.T) {
	from, to := twoWorlds(t)
	snap, err := to.s.Snapshot()
	require.NoError(t, err)
	require.NoError(t, install(to.s, bytes.NewReader(streamOf(t, from.s))))
	require.EqualValues(t, 70, metaOf(t, to.s).AppliedIndex)
	closed := make(chan error)
	go func() { closed <- to.s.Close() }()
	path := filepath.Join(t.TempDir(), "old")
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, snap)
		w.CloseWithError(err)
	}()
	info, err := Extract(r, path)
	require.NoError(t, err)
	require.EqualValues(t, 9, info.Index)
	require.EqualValues(t, 9, requireWhole(t, path).AppliedIndex)
	select {
	case <-closed:
		t.Fatal("closed before the snapshot was released")
	default:
	}
	snap.Release()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("not closed after the snapshot was released")
	}
}

func TestExtractKeepsAFileThatIsThere(t *testing.T) {
	from, to := twoWorlds(t)
	_, err := Extract(bytes.NewReader(streamOf(t, from.s)), to.s.path)
	require.ErrorIs(t, err, os.ErrExist)
	require.EqualValues(t, 9, metaOf(t, to.s).AppliedIndex)
}

func TestClosedStoreNeitherSendsNorReceives(t *testing.T) {
	from, to := twoWorlds(t)
	stream := streamOf(t, from.s)
	require.NoError(t, to.s.Close())
	_, err := to.s.Snapshot()
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, install(to.s, bytes.NewReader(stream)), ErrClosed)
	require.NoFileExists(t, installPath(to.s.path))
	_, err = to.s.Stats()
	require.ErrorIs(t, err, ErrClosed)
}

// TestGoldenStream holds the bytes around the file: streams are read by other
// releases.
func TestGoldenStream(t *testing.T) {
	want := "63706e7374617465000000010000000000000046000000000000000400000000000000035262ffc1" +
		"616263" + "0000000000000003" + "a9"
	got := handmade(StreamInfo{Index: 70, Term: 4}, []byte("abc"))
	require.Equal(t, want, hex.EncodeToString(got[:len(got)-31]))
}

func TestStats(t *testing.T) {
	w := newWorld(t, 1, 2)
	for range 20 {
		update(t, w.s, func(tx *WriteTx) { w.commit(tx, 30) })
	}
	stats, err := w.s.Stats()
	require.NoError(t, err)
	info, err := os.Stat(w.s.path)
	require.NoError(t, err)
	require.Equal(t, info.Size(), stats.FileBytes)
	require.EqualValues(t, os.Getpagesize(), stats.PageBytes)
	require.Positive(t, stats.FreePages)
	before := stats.FreePages
	reopen(t, w.s)
	stats, err = w.s.Stats()
	require.NoError(t, err)
	require.InDelta(t, before, stats.FreePages, 20, "known at once, not only after a commit")
}

func FuzzStreamHeader(f *testing.F) {
	f.Add(StreamInfo{Index: 1, Term: 2, Size: 3}.header())
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := decodeStreamHeader(b)
		if err != nil {
			require.ErrorIs(t, err, ErrStream)
			return
		}
		require.Equal(t, b, info.header())
	})
}

// The header is checked by itself: its size must not be believed before it is known to be whole.
func TestStreamHeader(t *testing.T) {
	header := StreamInfo{Index: 1, Term: 2, Size: 3}.header()
	for i := range header {
		bad := bytes.Clone(header)
		bad[i] ^= 0x10
		_, err := decodeStreamHeader(bad)
		require.ErrorIs(t, err, ErrStream, "byte %d", i)
	}
}

// A snapshot that is read slowly lets go of the state and still is what it was.
func TestDetachedSnapshot(t *testing.T) {
	for _, read := range []int64{0, 10, streamHeaderSize, 5_000, 60_000, 1 << 40} {
		from, to := twoWorlds(t)
		want := metaOf(t, from.s)
		snap, err := from.s.Snapshot()
		require.NoError(t, err)
		var got bytes.Buffer
		_, err = io.CopyN(&got, snap, min(read, snap.Size()))
		require.NoError(t, err)
		require.NoError(t, snap.Detach())
		require.NoError(t, snap.Detach())
		for i := range 50 { // would hold on to every page, and must not show
			update(t, from.s, func(tx *WriteTx) { from.commit(tx, 30); require.NoError(t, tx.SetApplied(uint64(71+i), 4)) })
		}
		_, err = io.Copy(&got, snap)
		require.NoError(t, err)
		require.EqualValues(t, snap.Size(), got.Len())
		require.NoError(t, install(to.s, &got))
		require.Equal(t, want, metaOf(t, to.s))
		entries, err := os.ReadDir(filepath.Dir(from.s.path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "the copy has no name")
		require.NoError(t, from.s.Close(), "while it is not released")
		snap.Release()
		_, err = snap.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrClosed)
	}
}

// A process that is killed while it copies the rest would leave gigabytes that nobody removes.
func TestDetachedSnapshotHasNoNameWhileItIsCopied(t *testing.T) {
	from, _ := twoWorlds(t)
	snap, err := from.s.Snapshot()
	require.NoError(t, err)
	defer snap.Release()
	pages, copied := snap.pages, false
	snap.pages = readerFunc(func(p []byte) (int, error) {
		entries, err := os.ReadDir(filepath.Dir(from.s.path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "the state")
		copied = true
		return pages.Read(p)
	})
	require.NoError(t, snap.Detach())
	require.True(t, copied)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
