// Command jepsen runs a cluster of real processes under faults and load, records all
// that its clients saw, and judges it.
//
//	go run ./jepsen --faults 200 --ops 20000 DIR
//
// DIR must not exist yet; it is left with the history, the faults, the nodes' logs and
// data, the binary, and the verdict, for `go run ./jepsen/check DIR`. The exit code is
// 1 when anything is wrong, or could not be decided.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "jepsen:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir        string
	binary     string // of cpnode; empty: built from this module
	faults     int
	operations int
	nodes      int
	seed       uint64
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("jepsen", flag.ContinueOnError)
	flags.IntVar(&o.faults, "faults", 200, "kills and pauses")
	flags.IntVar(&o.operations, "ops", 20000, "operations to record at least")
	flags.IntVar(&o.nodes, "nodes", 3, "nodes of the cluster")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1e9), "what chooses faults and operations; their times differ all the same")
	flags.StringVar(&o.binary, "cpnode", "", "binary to run; built from this module when not given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one directory, which is made")
	}
	if o.dir = flags.Arg(0); o.faults < 0 || o.operations < 1 || o.nodes < 3 || o.nodes > 7 {
		return errors.New("faults must be at least 0, ops at least 1, nodes 3 to 7")
	}
	report, err := run(ctx, o, out)
	if err == nil && !report.OK() {
		err = errors.New("the run does not hold")
	}
	return err
}
