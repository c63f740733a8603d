// Command jepsen runs a cluster of real processes under faults and load, records all
// that its clients saw, and judges it.
//
//	go run ./jepsen --faults all --for 5m DIR
//
// DIR must not exist yet; it is left with the history, the faults, the nodes' logs and
// data, the binary, and the verdict: as text, as JSON and as a page with a plot. It can
// be judged again with `go run ./jepsen/check DIR`. The exit code is 1 when anything is
// wrong, or could not be decided.
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
	"strings"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/jepsen/nemesis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "jepsen:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir        string
	binary     string // of cpnode; empty: built from this module
	kinds      []nemesis.Kind
	count      int           // of faults, unless length is given
	length     time.Duration // faults go on for so long
	operations int
	nodes      int
	seed       uint64
	objects    bool // clients with objects in a store, which the nodes delete
	brokers    bool // brokers that switch topics over
}

// operationsPerSecond are recorded when it is not said how many in all.
const operationsPerSecond = 50

func command(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	report, err := run(ctx, o, out)
	if err == nil && !report.OK() {
		err = errors.New("the run does not hold")
	}
	return err
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("jepsen", flag.ContinueOnError)
	all, _ := nemesis.Select("all")
	kinds := flags.String("faults", "kill,pause", "kinds of faults, or all: "+strings.Join(nemesis.Names(all), ", "))
	flags.IntVar(&o.count, "count", 200, "how many faults, without --for")
	flags.DurationVar(&o.length, "for", 0, "how long faults go on")
	flags.IntVar(&o.operations, "ops", 0, fmt.Sprintf("operations to record at least; 0: %d a second", operationsPerSecond))
	flags.IntVar(&o.nodes, "nodes", 3, "nodes of the cluster")
	flags.BoolVar(&o.objects, "objects", true, "with clients that have topics and objects of their own, which the nodes delete")
	flags.BoolVar(&o.brokers, "brokers", true, "with brokers that switch topics over")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1e9), "what chooses faults and operations; their times differ all the same")
	flags.StringVar(&o.binary, "cpnode", "", "binary to run; built from this module when not given")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() != 1 {
		return o, errors.New("name one directory, which is made")
	}
	if o.dir = flags.Arg(0); o.count < 0 || o.operations < 0 || o.length < 0 || o.nodes < 3 || o.nodes > 7 {
		return o, errors.New("count, for and ops must be at least 0, nodes 3 to 7")
	}
	o.kinds, err = nemesis.Select(*kinds)
	return o, err
}

// duration is about how long the faults take.
func (o *options) duration() time.Duration {
	if o.length > 0 {
		return o.length
	}
	return time.Duration(max(1, o.count)) * nemesis.Period
}

// recorded is how many operations are recorded at least.
func (o *options) recorded() int {
	if o.operations > 0 {
		return o.operations
	}
	return max(1, int(o.duration().Seconds()*operationsPerSecond))
}
