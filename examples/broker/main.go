// Command broker shows a broker that embeds the control plane, and the switch of a topic
// from classic to diskless storage: see README.md. Without the first argument of a child it
// is the run that starts three of them, and watches.
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cpnode/cpnode/store"
)

func main() {
	store.ChildMain()
	brokerMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}

// brokerMain runs a broker and exits, if this process was started as one.
func brokerMain() {
	if len(os.Args) == 4 && os.Args[1] == serveVerb {
		os.Exit(serveUntilTold(os.Args[2], os.Args[3]))
	}
}

// serveUntilTold is a broker, until it is told to end, or its parent is gone.
func serveUntilTold(dir, broker string) (exit int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the parent
		os.Exit(1)
	}()
	id, err := strconv.ParseInt(broker, 10, 32)
	if err == nil {
		err = serve(ctx, dir, int32(id), os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		return 1
	}
	return 0
}

// options are what a run is to show.
type options struct {
	once           bool
	kill           []string // points
	wiped, rebuilt bool
	seeds, seed    uint64
	restartAfter   time.Duration
	session        time.Duration
	noRemoteBytes  bool
	dir            string
	timeout        time.Duration
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.BoolVar(&o.once, "once", false, "switch one topic, and overwrite every local copy of its prefix")
	kill := flags.String("kill", "", "kill the leader at these points, one topic each: all, or some of "+strings.Join(killPoints, ","))
	flags.BoolVar(&o.wiped, "wiped", false, "wipe one follower, then all, before the seal, and kill the leader")
	flags.BoolVar(&o.rebuilt, "rebuilt", false, "wipe one follower before the seal, and kill leaders until it leads")
	flags.Uint64Var(&o.seeds, "seeds", 1, "repeat with this many seeds, on a new cluster each")
	flags.Uint64Var(&o.seed, "seed", 1, "the first of them")
	flags.DurationVar(&o.restartAfter, "restart-after", 5*time.Second, "how long a killed broker stays down")
	flags.DurationVar(&o.session, "session", 3*time.Second, "the silence after which a broker is fenced")
	remote := flags.String("remote", "directory", "\"none\": remote storage keeps no bytes, and the run must fail")
	flags.StringVar(&o.dir, "dir", "", "keep the clusters in this new directory (default: a temporary one)")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "of one seed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.noRemoteBytes = *remote == "none"
	switch *kill {
	case "":
	case "all":
		o.kill = killPoints
	default:
		o.kill = strings.Split(*kill, ",")
	}
	for _, point := range o.kill {
		if !slices.Contains(killPoints, point) {
			return o, fmt.Errorf("--kill: there is no point %q", point)
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("there are no arguments, only flags")
	case !o.once && !o.wiped && !o.rebuilt && len(o.kill) == 0:
		return o, fmt.Errorf("give --once, --kill, --wiped or --rebuilt")
	case *remote != "none" && *remote != "directory":
		return o, fmt.Errorf("--remote: %q must be directory or none", *remote)
	}
	return o, nil
}

func run(ctx context.Context, args []string, output io.Writer) error {
	o, err := parse(args, output)
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "cpnode-broker-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	for seed := o.seed; seed < o.seed+o.seeds; seed++ {
		if err := runSeed(ctx, fmt.Sprintf("%s/seed-%d", dir, seed), seed, o, output); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

// runSeed shows what is asked for on a new cluster.
func runSeed(ctx context.Context, dir string, seed uint64, o options, output io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	l, err := newLayout(3, o.session)
	if err != nil {
		return err
	}
	l.NoRemoteBytes = o.noRemoteBytes
	c, err := newCluster(dir, l, output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.say("seed %d: three brokers started", seed)
	if o.noRemoteBytes {
		c.say("remote storage keeps no bytes: the run must fail where it reads them")
	}
	if err := c.stories(ctx, o, rand.New(rand.NewPCG(seed, 0))); err != nil {
		return err
	}
	c.say("all is well")
	return nil
}

func (c *cluster) stories(ctx context.Context, o options, random *rand.Rand) error {
	if o.once {
		if err := c.once(ctx); err != nil {
			return err
		}
	}
	for _, point := range o.kill {
		if err := c.killAt(ctx, point, random, o.restartAfter); err != nil {
			return err
		}
	}
	if o.wiped {
		if _, _, err := c.oneWiped(ctx); err != nil {
			return err
		}
		if err := c.allWiped(ctx); err != nil {
			return err
		}
	}
	if o.rebuilt {
		return c.rebuilt(ctx)
	}
	return nil
}
