// Command cpnode is the control plane of a diskless Kafka: a node of a cluster, and
// the tools to try it, to operate it and to look into what it stored.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

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
		fmt.Fprintf(stderr, "cpnode: %v\nSee: %s --help\n", err, cmd.CommandPath())
		return exitUsage
	default:
		fmt.Fprintf(stderr, "cpnode: %v\n", err)
		return exitFailed
	}
}

// errReported ends a command that has said itself why it failed.
var errReported = errors.New("reported")

// usageError is a command line that makes no sense, or a configuration.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
