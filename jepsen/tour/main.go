// Command tour takes a cluster of real processes through all that can happen to its
// membership, while clients commit: it grows and shrinks, its nodes move, lose their
// data and come back, it loses its majority twice.
//
//	go run ./jepsen/tour DIR
//
// DIR must not exist yet; it is left like the directory of a run of jepsen, for
// `go run ./jepsen/check DIR`, with a fault for each step. After each step everything
// that was acknowledged is read back. The exit code is 1 when a step fails, which is
// named, or when the judge finds anything wrong at the end, or cannot decide it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir    string
	binary string // of cpnode; empty: built from this module
	seed   uint64
	rate   int           // operations of clients a second
	hold   time.Duration // how long clients go on after each step before it is judged
	watch  time.Duration // how long it is watched that nothing happens
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("tour", flag.ContinueOnError)
	flags.StringVar(&o.binary, "cpnode", "", "binary to run; built from this module when not given")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1e9), "what chooses the clients' operations; their times differ all the same")
	flags.IntVar(&o.rate, "rate", 100, "operations of clients a second")
	flags.DurationVar(&o.hold, "hold", 2*time.Second, "how long clients go on after each step before it is judged")
	flags.DurationVar(&o.watch, "watch", 4*time.Second, "how long it is watched that a node disturbs nobody")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one directory, which is made")
	}
	if o.dir = flags.Arg(0); o.rate < 1 || o.hold < 0 || o.watch < 0 {
		return errors.New("rate must be at least 1, hold and watch not negative")
	}
	return run(ctx, o, out)
}
