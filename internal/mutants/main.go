// Command mutants breaks the code in one place after the other and runs the test
// that must notice. A mutation that survives means that a rule has no test.
//
//	go run ./internal/mutants [-only NAME] [-share 0/3] [-j 2]
//
// Nothing in the tree is changed: the wrong file is laid over it (go build -overlay).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cpnode/cpnode/internal/overlay"
)

// testTimeout ends a test that a mutation made hang, which counts as noticed.
const testTimeout = 2 * time.Minute

func main() {
	only := flag.String("only", "", "run the mutations whose name contains this")
	share := flag.String("share", "0/1", "run only every so many of them: 1/3 is the second and each third after it")
	jobs := flag.Int("j", 2, "mutations at a time")
	flag.Parse()
	chosen, err := choose(*only, *share)
	ok := false
	if err == nil {
		ok, err = run(context.Background(), chosen, *jobs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// choose is the mutations of a share whose name contains only.
func choose(only, share string) (chosen []mutation, err error) {
	var at, of int
	if _, err := fmt.Sscanf(share, "%d/%d", &at, &of); err != nil || at < 0 || at >= of {
		return nil, fmt.Errorf("share: %q is not K/N with K below N", share)
	}
	for i, m := range mutations {
		if i%of == at && strings.Contains(m.name, only) {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// run says whether every mutation was noticed; the error, that it could not tell.
func run(ctx context.Context, chosen []mutation, jobs int) (bool, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	killed := make([]bool, len(chosen))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(jobs)
	right := newBinaries(dir)
	for i, m := range chosen {
		g.Go(func() (err error) {
			began := time.Now()
			killed[i], err = m.try(ctx, right, filepath.Join(dir, fmt.Sprint(i)))
			if err == nil {
				fmt.Printf("%-9s %5.1fs  %-48s %s %s\n", verdict(killed[i]), time.Since(began).Seconds(), m.name, m.pkg, m.run)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	return report(killed), nil
}

func verdict(killed bool) string {
	if killed {
		return "killed"
	}
	return "SURVIVED"
}

func report(killed []bool) bool {
	count := 0
	for _, k := range killed {
		if k {
			count++
		}
	}
	fmt.Printf("%d of %d mutations killed\n", count, len(killed))
	return count == len(killed)
}

// binaries are the tests of packages as they are, each built when it is first asked for.
type binaries struct {
	dir   string
	mu    sync.Mutex
	built map[string]func() (string, error)
}

func newBinaries(dir string) *binaries {
	return &binaries{dir: dir, built: map[string]func() (string, error){}}
}

// of builds the tests of a package, or waits for who does.
func (b *binaries) of(ctx context.Context, pkg string) (string, error) {
	b.mu.Lock()
	build, ok := b.built[pkg]
	if !ok {
		path := filepath.Join(b.dir, fmt.Sprintf("right%d.test", len(b.built)))
		build = sync.OnceValues(func() (string, error) { return path, compile(ctx, pkg, path) })
		b.built[pkg] = build
	}
	b.mu.Unlock()
	return build()
}

// compile builds the tests of a package. Code that does not build says nothing about a
// mutation.
func compile(ctx context.Context, pkg, binary string, flags ...string) error {
	args := append([]string{"test", "-c", "-o", binary}, append(flags, pkg)...)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build: %w\n%s", pkg, err, out)
	}
	return nil
}

// try runs the mutation's test on the right code, where it must pass, and on the
// wrong code, where it must not.
func (m mutation) try(ctx context.Context, right *binaries, dir string) (killed bool, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return false, err
	}
	path, err := overlay.Write(dir, "", m.change())
	if err != nil {
		return false, fmt.Errorf("%s: %w", m.name, err)
	}
	binary, err := right.of(ctx, m.pkg)
	if err != nil {
		return false, err
	}
	if passed, out, err := m.test(ctx, binary); err != nil || !passed {
		return false, fmt.Errorf("%s: %s %s does not pass on the code as it is: %w\n%s", m.name, m.pkg, m.run, err, out)
	}
	wrong := filepath.Join(dir, "wrong.test")
	if err := compile(ctx, m.pkg, wrong, "-overlay", path); err != nil {
		return false, fmt.Errorf("%s: %w", m.name, err)
	}
	defer os.RemoveAll(wrong)
	passed, _, err := m.test(ctx, wrong)
	return !passed, err
}

// test runs the mutation's test. A name that no test has is an error: it says nothing about
// the mutation.
func (m mutation) test(ctx context.Context, binary string) (passed bool, output []byte, err error) {
	args := []string{"-test.short", "-test.run", "^(" + m.run + ")", "-test.timeout", testTimeout.String()}
	if strings.Contains(m.run, "TestModel") {
		args = append(args, "-rapid.shrinktime=1s", "-rapid.nofailfile") // a short story of the failure is not needed
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = m.pkg
	output, err = cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case strings.Contains(string(output), "no tests to run"):
		return false, output, fmt.Errorf("%s: %s has no test %s", m.name, m.pkg, m.run)
	case errors.As(err, &failed) && ctx.Err() == nil:
		return false, output, nil
	}
	return err == nil, output, err
}
