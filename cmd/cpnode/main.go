// Command cpnode is the control plane of a diskless Kafka: a node of a cluster, and
// the tools to try it, to operate it and to look into what it stored.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	store.ChildMain() // does not return in a child that looks at a damaged file
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run carries out one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "cpnode: %v\nSee: %s --help\n", err, asTyped(cmd.CommandPath()))
		return exitUsage
	default:
		fmt.Fprintf(stderr, "cpnode: %v\n", explainNoAnswer(err))
		return exitFailed
	}
}

// errReported ends a command that has said itself why it failed.
var errReported = errors.New("reported")

// usageError is a command line that makes no sense, or a configuration.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// explainNoAnswer says what a person wants to know when no node has answered; other
// errors, and those of a write that may have been carried out, are left as they are.
func explainNoAnswer(err error) error {
	if !errors.Is(err, api.ErrNoAnswer) || !errors.Is(err, &ops.Error{Code: ops.NoLeader}) {
		return err
	}
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" {
		_, why, _ := strings.Cut(err.Error(), ": ") // the code is for programs
		return fmt.Errorf("%s (--endpoints names others)", why)
	}
	where := "no node was reached"
	if dial.Addr != nil {
		where = dial.Addr.String() + " was not reached"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s: is the node running? (--endpoints names others)", dial.Addr)
	}
	return fmt.Errorf("%s: %w (--endpoints names others)", where, dial.Err)
}

// program is how this program was called, for lines that can be pasted.
var program = programOf(os.Args[0])

func programOf(arg0 string) string {
	switch {
	case strings.Contains(arg0, "go-build"):
		return "go run ./cmd/cpnode" // which leaves its binary somewhere
	case strings.HasPrefix(filepath.Base(arg0), "cpnode"):
		return arg0
	}
	return "cpnode" // a test
}

// asTyped is a command line that begins with cpnode, as it would be typed here.
func asTyped(line string) string { return program + strings.TrimPrefix(line, "cpnode") }
