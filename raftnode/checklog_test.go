package raftnode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/cpnode/cpnode/store"
)

// TestMain is also the main function of the processes that tests start.
func TestMain(m *testing.M) {
	store.ChildMain()
	if len(os.Args) == 3 && os.Args[1] == processArg {
		if err := runProcess(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// variedLog is a closed log with several pages, freed ones among them, and all
// promises.
func variedLog(t *testing.T, kind string) string {
	path := filepath.Join(t.TempDir(), logFile)
	snapshots := &snapshotsAt{}
	s, err := openLog(path, kind, snapshots, func(string, time.Duration) {})
	require.NoError(t, err)
	require.NoError(t, s.SetUint64(keyCurrentTerm, 5))
	require.NoError(t, s.SetUint64(keyLastVoteTerm, 4))
	require.NoError(t, s.Set([]byte(keyLastVoteCand), []byte("127.0.0.1:7400")))
	for i := uint64(0); i < 20; i++ {
		require.NoError(t, s.StoreLogs(testEntries(10*i+1, 10*i+10, 2+i/10)))
	}
	require.NoError(t, s.DeleteRange(191, 200))
	require.NoError(t, s.StoreLogs(testEntries(191, 210, 4)))
	snapshots.index = 100
	require.NoError(t, s.DeleteRange(1, 80))
	require.NoError(t, s.Close())
	return path
}

func TestCheckLog(t *testing.T) { eachLogStore(t, testCheckLog) }

func testCheckLog(t *testing.T, kind string) {
	path := variedLog(t, kind)
	for _, check := range []func() (LogReport, error){
		func() (LogReport, error) { return CheckLog(path) },
		func() (LogReport, error) { return CheckLogInChild(t.Context(), store.Child{}, path) },
	} {
		r, err := check()
		require.NoError(t, err)
		require.NoError(t, r.Err())
		require.Len(t, r.Digest, 16)
		r.Digest = ""
		require.Equal(t, LogReport{FirstIndex: 81, LastIndex: 210, CurrentTerm: 5}, r)
	}
	_, err := CheckLog(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = CheckLogInChild(t.Context(), store.Child{}, path+"x")
	require.ErrorIs(t, err, os.ErrNotExist)
	openTestLog(t, path, kind)
	_, err = CheckLog(path)
	require.ErrorIs(t, err, ErrLocked)
}

func TestCheckLogNamesTheDamage(t *testing.T) {
	base, err := os.ReadFile(variedLog(t, LogStoreBoltDB))
	require.NoError(t, err)
	// raw changes a bucket past the log store, which is closed then.
	raw := func(bucket string, change func(*bbolt.Bucket) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db, err := bbolt.Open(path, 0, boltOptions(false))
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte(bucket))) }))
			require.NoError(t, db.Close())
		}
	}
	sealed := func(change func(*logStore) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			s, err := openLog(path, LogStoreBoltDB, &snapshotsAt{}, func(string, time.Duration) {})
			require.NoError(t, err)
			require.NoError(t, change(s))
			require.NoError(t, s.Close())
		}
	}
	index := func(i byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, i} }
	for want, damage := range map[string]func(*testing.T, string){
		"entry 151 follows entry 149":        raw(logBucket, func(b *bbolt.Bucket) error { return b.Delete(index(150)) }),
		"key 01 of an entry is not an index": raw(logBucket, func(b *bbolt.Bucket) error { return b.Put([]byte{1}, []byte{1}) }),
		"entry 90 does not decode":           raw(logBucket, func(b *bbolt.Bucket) error { return b.Put(index(90), []byte{0xc1}) }),
		"checksum mismatch in CurrentTerm":   raw(promiseBucket, func(b *bbolt.Bucket) error { return b.Put(keyCurrentTerm, index(9)) }),
		`unknown promise "Other"`: sealed(func(s *logStore) error {
			return s.Set([]byte("Other"), nil)
		}),
		"a bucket is missing": raw(logBucket, func(b *bbolt.Bucket) error { return b.Tx().DeleteBucket([]byte(promiseBucket)) }),
		"entry 211 is of term 3, the one before of 4": sealed(func(s *logStore) error {
			return s.StoreLog(&raft.Log{Index: 211, Term: 3})
		}),
		"the present term is 5, that of the last vote 4, that of the last entry 6": sealed(func(s *logStore) error {
			return s.StoreLog(&raft.Log{Index: 211, Term: 6})
		}),
		"the present term is 5, that of the last vote 6, that of the last entry 4": sealed(func(s *logStore) error {
			return s.SetUint64(keyLastVoteTerm, 6)
		}),
	} {
		t.Run(want, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), logFile)
			require.NoError(t, os.WriteFile(path, base, 0o600))
			damage(t, path)
			r, err := CheckLog(path)
			require.NoError(t, err)
			require.ErrorIs(t, r.Err(), ErrLogDamaged)
			require.Contains(t, r.Problem, want)
		})
	}
}

// Whatever byte is changed, the log is damaged or says what it said before.
func TestFlippedBytesInTheLog(t *testing.T) {
	flips := int64(1000)
	switch {
	case raceDetector:
		flips = 20
	case testing.Short():
		flips = 100
	}
	const seed = 3
	t.Logf("seed %d", seed)
	base := variedLog(t, LogStoreBoltDB)
	want, err := CheckLog(base)
	require.NoError(t, err)
	image, err := os.ReadFile(base)
	require.NoError(t, err)
	image = image[:usedBytes(t, base)] // the rest was allocated ahead
	r := rand.New(rand.NewPCG(seed, 0))
	offsets, masks := make([]int, flips), make([]byte, flips)
	for i := range offsets {
		offsets[i], masks[i] = r.IntN(len(image)), 1+byte(r.IntN(255))
	}
	var next, damaged atomic.Int64
	var workers sync.WaitGroup
	for worker := range 2 {
		path := filepath.Join(t.TempDir(), "flipped"+strconv.Itoa(worker))
		workers.Go(func() {
			for i := next.Add(1) - 1; i < flips; i = next.Add(1) - 1 {
				flipped := append([]byte(nil), image...)
				flipped[offsets[i]] ^= masks[i]
				if err := os.WriteFile(path, flipped, 0o600); err != nil {
					t.Error(err)
					return
				}
				got, err := CheckLogInChild(t.Context(), store.Child{}, path)
				switch {
				case err != nil:
					t.Errorf("flip of byte %d by %#x: %v", offsets[i], masks[i], err)
				case got.Problem != "":
					damaged.Add(1)
					if strings.Contains(got.Problem, store.ErrChildDied.Error()) {
						t.Logf("flip of byte %d by %#x: %s", offsets[i], masks[i], got.Problem)
					}
				case got != want:
					t.Errorf("flip of byte %d by %#x: another log, and no problem: %+v", offsets[i], masks[i], got)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d of %d flips in %d bytes were damage", damaged.Load(), flips, len(image))
	require.Greater(t, damaged.Load(), flips/20)
}

func usedBytes(t *testing.T, path string) (n int64) {
	t.Helper()
	db, err := bbolt.Open(path, 0, boltOptions(true))
	require.NoError(t, err)
	require.NoError(t, db.View(func(tx *bbolt.Tx) error { n = tx.Size(); return nil }))
	require.NoError(t, db.Close())
	return n
}

// The same of segments: whatever byte is changed, after the log was closed.
func TestFlippedBytesInSegments(t *testing.T) {
	path := variedLog(t, LogStoreWAL)
	want, err := CheckLog(path)
	require.NoError(t, err)
	require.NoError(t, want.Err())
	segments, err := filepath.Glob(filepath.Join(walDir(path), "*"))
	require.NoError(t, err)
	require.Len(t, segments, 2)
	for _, segment := range segments {
		data, err := os.ReadFile(segment)
		require.NoError(t, err)
		used, damaged := bytes.TrimRight(data, "\x00"), 0
		for at := 0; at < len(used); at += 1 + len(used)/40 {
			data[at] ^= 1
			require.NoError(t, os.WriteFile(segment, data, 0o600))
			data[at] ^= 1
			got, err := CheckLogInChild(t.Context(), store.Child{}, path)
			require.NoError(t, err)
			if got.Err() == nil {
				require.Equal(t, want, got)
				continue
			}
			damaged++
			if segment == segments[1] { // others are read when they are needed
				_, err = openLog(path, LogStoreWAL, &snapshotsAt{}, func(string, time.Duration) {})
				require.ErrorIs(t, err, ErrLogDamaged)
			}
		}
		require.Greater(t, damaged, 35)
		require.NoError(t, os.WriteFile(segment, data, 0o600))
	}
}
