// Command million runs a cluster of real processes that holds a million batches, and
// measures what a large state makes slow: starting again after all nodes were killed,
// snapshots, and giving a node that lost its data a copy.
//
//	go run ./jepsen/million DIR
//
// DIR must not exist yet; it is left with the nodes' logs and data, and the binary.
// The exit code is 1 when a target is missed, or anything else is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "million:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir     string
	binary  string // of cpnode; empty: built from this module
	batches int
	clients int           // that commit while something is measured
	point   time.Duration // length of a measured point
	report  bool          // a missed target is no error
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("million", flag.ContinueOnError)
	flags.IntVar(&o.batches, "batches", 1_000_000, "batches to store")
	flags.IntVar(&o.clients, "clients", 8, "clients that commit while something is measured")
	flags.DurationVar(&o.point, "point", 8*time.Second, "length of a measured point")
	flags.BoolVar(&o.report, "report", false, "exit with 0 also when a target is missed")
	flags.StringVar(&o.binary, "cpnode", "", "binary to run; built from this module when not given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one directory, which is made")
	}
	if o.dir = flags.Arg(0); o.batches < minBatches || o.clients < 1 || o.point < time.Millisecond {
		return fmt.Errorf("batches must be at least %d, clients at least 1, point at least 1ms", minBatches)
	}
	missed, err := run(ctx, o, out)
	if err == nil && missed > 0 && !o.report {
		err = fmt.Errorf("%d targets missed", missed)
	}
	return err
}
