// Command workers shows that what a deleted topic held goes, and nothing else, on three
// real processes with a real object store, while the leader is killed in the middle.
//
//	go run ./jepsen/workers [--store directory|s3] [--batches 100000] DIR
//
// Two topics share objects whose bytes lie in the store; one topic is deleted. The
// leader is killed while the topic is purged, and the next one while objects are
// deleted. Then every batch of the other topic is found and its bytes compared, the
// store holds the objects that are referred to and no others, none went before its
// grace, and the state file has not grown. What the nodes' metrics said is printed.
//
// DIR must not exist yet; it is left with the nodes' logs and data, the objects and the
// binary. The exit code is 1 when a target is missed, or anything else is wrong.
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
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir      string
	binary   string // of cpnode; empty: built from this module
	store    string // directory or s3
	batches  int
	interval time.Duration // of purger and cleaner
	grace    time.Duration // between marking a file and deleting its object
	report   bool          // a missed target is no error
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("workers", flag.ContinueOnError)
	flags.StringVar(&o.store, "store", storeDirectory, "where the objects lie: directory, or s3 for an S3 server process")
	flags.IntVar(&o.batches, "batches", 100_000, "batches to store, half of them in the topic that is deleted")
	flags.DurationVar(&o.interval, "interval", time.Second, "how often purger and cleaner work")
	flags.DurationVar(&o.grace, "grace", 5*time.Second, "how long a file has held no batch before its object may go")
	flags.BoolVar(&o.report, "report", false, "exit with 0 also when a target is missed")
	flags.StringVar(&o.binary, "cpnode", "", "binary to run; built from this module when not given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one directory, which is made")
	}
	o.dir = flags.Arg(0)
	switch {
	case o.store != storeDirectory && o.store != storeS3:
		return fmt.Errorf("store must be %s or %s", storeDirectory, storeS3)
	case o.batches < minBatches:
		return fmt.Errorf("batches must be at least %d", minBatches)
	case o.interval < time.Millisecond || o.grace < time.Millisecond:
		return errors.New("interval and grace must be at least 1ms")
	}
	missed, err := run(ctx, o, out)
	if err == nil && missed > 0 && !o.report {
		err = fmt.Errorf("%d targets missed", missed)
	}
	return err
}
