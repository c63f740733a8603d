package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	RegisterChildTask("test-echo", func(args []string) (any, error) { return args, nil })
	RegisterChildTask("test-fail", func([]string) (any, error) { return nil, errors.New("cannot") })
	RegisterChildTask("test-exit", func([]string) (any, error) { os.Exit(0); return nil, nil })
	RegisterChildTask("test-hang", func([]string) (any, error) { select {} })
	RegisterChildTask("test-panic", func([]string) (any, error) {
		go panic("in a goroutine of its own")
		select {}
	})
	RegisterChildTask("test-recurse", func([]string) (any, error) { return recurse(0), nil })
	ChildMain()
	os.Exit(m.Run())
}

func recurse(n int) int { return recurse(n+1) + n }

func TestChild(t *testing.T) {
	ctx := t.Context()
	result, err := Child{}.Run(ctx, time.Minute, "test-echo", "a", "b c")
	require.NoError(t, err)
	require.JSONEq(t, `["a", "b c"]`, string(result))
	_, err = Child{}.Run(ctx, time.Minute, "test-fail")
	require.EqualError(t, err, "cannot")
	_, err = Child{}.Run(ctx, time.Minute, "unknown")
	require.ErrorContains(t, err, `unknown child task "unknown"`)
	for task, said := range map[string]string{"test-panic": "in a goroutine of its own", "test-recurse": "stack exceeds", "test-exit": "does not decode"} {
		_, err = Child{}.Run(ctx, time.Minute, task)
		require.ErrorIs(t, err, ErrChildDied, task)
		require.ErrorContains(t, err, said)
	}
	_, err = Child{}.Run(ctx, 50*time.Millisecond, "test-hang")
	require.ErrorIs(t, err, ErrChildDied)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Child{}.Run(cancelled, time.Minute, "test-hang")
	require.ErrorIs(t, err, context.Canceled)
	_, err = Child{Command: "/no/such/command"}.Run(ctx, time.Minute, "test-echo")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Panics(t, func() { RegisterChildTask("check", checkTask) })

	childCalled.Store(false)
	defer childCalled.Store(true)
	_, err = Child{}.Run(ctx, time.Minute, "test-echo")
	require.ErrorIs(t, err, ErrNoChild)
}

func TestCheckInChild(t *testing.T) {
	path, _ := variedState(t, 20)
	want, err := Check(path)
	require.NoError(t, err)
	got, err := CheckInChild(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = CheckInChild(t.Context(), path+"x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestFlippedBytes flips one byte of a state file, anywhere: the check calls the
// file damaged or, where the byte means nothing, comes to the same state.
func TestFlippedBytes(t *testing.T) {
	flips := 1000
	if testing.Short() {
		flips = 100
	}
	const seed = 2
	t.Logf("seed %d", seed)
	base, _ := variedState(t, 500)
	want, err := Check(base)
	require.NoError(t, err)
	image, err := os.ReadFile(base)
	require.NoError(t, err)
	used, end := usedPages(t, base)
	image = image[:end]
	t.Logf("%d bytes, %d pages in use", len(image), len(used))
	r := rand.New(rand.NewPCG(seed, 0))
	var next, damaged, died atomic.Int64
	offsets, masks := make([]int, flips), make([]byte, flips)
	for i := range flips {
		offsets[i], masks[i] = flipOffset(r, used, len(image), i), 1+byte(r.IntN(255))
	}
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			path := filepath.Join(t.TempDir(), "flipped"+strconv.Itoa(worker))
			for i := next.Add(1) - 1; i < int64(flips); i = next.Add(1) - 1 {
				what := fmt.Sprintf("flip %d: byte %d (page %d + %d) ^ %#x", i, offsets[i], offsets[i]/4096, offsets[i]%4096, masks[i])
				flipped := append([]byte(nil), image...)
				flipped[offsets[i]] ^= masks[i]
				if err := os.WriteFile(path, flipped, 0o600); err != nil {
					t.Error(err)
					return
				}
				got, err := CheckInChild(t.Context(), path)
				switch {
				case err != nil:
					t.Errorf("%s: %v", what, err)
				case len(got.Problems) > 0:
					damaged.Add(1)
					if strings.Contains(got.Problems[0], ErrChildDied.Error()) {
						died.Add(1)
						t.Logf("%s: %s", what, got.Problems[0])
					}
				case offsets[i]%4096 < 16 && slices.Contains(used, int64(offsets[i]/4096)):
					t.Errorf("%s: a page header that is not checked", what)
				case got.Digest != want.Digest || got.AppliedIndex != want.AppliedIndex:
					t.Errorf("%s: another state, and no problem: %+v", what, got)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d flips, %d damaged, %d of them killed the child", flips, damaged.Load(), died.Load())
	require.Greater(t, damaged.Load(), int64(flips)/3)
}

// flipOffset is a byte of a page that is used (or, now and then, of any page), more often than not
// among the first of it, where header and elements are.
func flipOffset(r *rand.Rand, used []int64, size, i int) int {
	page := int(used[r.IntN(len(used))])
	switch i % 8 {
	case 0:
		return r.IntN(size)
	case 1:
		return r.IntN(2)*4096 + r.IntN(80)
	case 2, 3, 4:
		return page*4096 + r.IntN(128)
	}
	return page*4096 + r.IntN(4096)
}

// usedPages lists the pages that the newest state of a file consists of, and
// says where the last page that was ever used ends.
func usedPages(t *testing.T, path string) (used []int64, end int64) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	metas, problem, err := metasOf(f)
	require.NoError(t, err)
	require.Empty(t, problem)
	meta, problem := metas.newest()
	require.Empty(t, problem)
	w := pageWalk{file: f, meta: meta, seen: make([]bool, meta.pages)}
	require.Empty(t, w.tree(pageRef{id: meta.root, root: true, buckets: true}))
	for id, seen := range w.seen {
		if seen {
			used = append(used, int64(id))
		}
	}
	require.Less(t, len(used), len(w.seen)-2, "freed pages must be among them")
	return used, int64(meta.pages) * meta.pageSize
}
