// Command cpnode is the control plane of a diskless Kafka in one binary: a node
// of a cluster, and the tools to look at one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/store"
)

// Exit codes of every verb.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	store.ChildMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the default is back: a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is wrapped by what is wrong with the command line.
var errUsage = errors.New("usage")

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// run carries out one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{Use: "cpnode", Short: "The control plane of a diskless Kafka", SilenceErrors: true, SilenceUsage: true}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	root.AddCommand(serveCommand(), devCommand(), replayCommand(), checkCommand(), demoCommand(), benchCommand(), versionCommand())
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage), !started:
		fmt.Fprintf(stderr, "cpnode: %v\nSee cpnode --help.\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "cpnode: %v\n", err)
	return exitFailed
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the release", Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "cpnode", version()) },
	}
}
