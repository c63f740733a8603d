package store_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/internal/crashdisk"
	"github.com/cpnode/cpnode/store"
)

// TestKillAtEveryWrite stops a process before each change that it makes to its
// files, installs and reopenings included. A kill leaves exactly the changes made so
// far, so they are recorded once and what each kill leaves is put together from them.
func TestKillAtEveryWrite(t *testing.T) {
	h, events := makeHistory(), recordLife(t, true)
	dir := filepath.Join(t.TempDir(), "killed")
	every := 1
	if !*crashAll {
		every = 41
	}
	disk, hit, count := crashdisk.New(nil), 0, map[string]int{}
	for i, e := range events {
		if i >= past && (i%every == 0 || isStep(e)) {
			write(t, dir, disk.Killed())
			err := h.judge(t, filepath.Join(dir, "state.db"), bootOptions("first"), e.applied, e.next, hit%25 == 0)
			require.NoError(t, err, "killed before change %d of %d: %s of %s", i-past, len(events)-past, e.Op, filepath.Base(e.Path))
			hit++
		}
		count[string(e.Op)+" "+filepath.Base(e.Path)]++
		disk.Do(e.Change)
	}
	t.Logf("%d entries, %d changes to files %v, killed before %d of them", h.last(), len(events)-past, count, hit)
	if *crashAll {
		require.Equal(t, len(events)-past, hit)
	}
}

// isStep says whether a change is one of the few that are not writes to the state.
func isStep(e event) bool {
	return e.Op != store.OpWrite || filepath.Base(e.Path) != "state.db"
}

func init() {
	store.RegisterChildTask("crash-life", func(args []string) (any, error) {
		at, err := strconv.Atoi(args[1])
		if err != nil {
			return nil, err
		}

		l := &life{t: panics{}, h: makeHistory(), path: args[0], pinned: true, options: bootOptions("first")}
		l.options.Watch = crashdisk.Watch(func(store.Change) error {
			if at--; at == 0 {
				if err := os.WriteFile(args[0]+".said", []byte(strconv.FormatUint(l.applied, 10)), 0o600); err == nil {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}
			return nil
		}, nil)
		l.run()
		return at, nil
	})
}

// TestKilledProcesses kills real processes before changes from the first on, when
// there is no state yet.
func TestKilledProcesses(t *testing.T) {
	h := makeHistory()
	total := len(recordLife(t, true))
	r := rand.New(rand.NewPCG(*crashSeed, 1))
	t.Logf("seed %d", *crashSeed)
	for i := range *crashKills {
		at := 1 + i // the steps of making an empty state
		if i >= 12 || i%2 == 1 {
			at = 1 + r.IntN(total)
		}
		path := filepath.Join(t.TempDir(), "state.db")
		result, err := store.Child{}.Run(t.Context(), time.Minute, "crash-life", path, strconv.Itoa(at))
		var left int
		if err == nil {
			require.NoError(t, json.Unmarshal(result, &left))
			require.Positive(t, left, "it lived to its end")
			continue
		}
		require.ErrorIs(t, err, store.ErrChildDied)
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit))
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
		said, err := os.ReadFile(path + ".said")
		require.NoError(t, err)
		applied, err := strconv.ParseUint(strings.TrimSpace(string(said)), 10, 64)
		require.NoError(t, err)
		next := min(applied+1+installJump, h.last())
		require.NoError(t, h.judge(t, path, bootOptions("first"), applied, next, true), "killed before change %d", at)
	}
}
