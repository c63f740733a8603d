// Command check judges a run of jepsen again, from its directory.
//
//	go run ./jepsen/check DIR
//	go run ./jepsen/check --doctor stale-read DIR
//
// The second makes the history wrong in memory first, and shows what the judge says.
// It exits 1 when anything is wrong, or could not be decided.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/cpnode/cpnode/jepsen/checker"
)

var errNotOK = errors.New("the run does not hold")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	config := checker.DefaultConfig()
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.DurationVar(&config.Budget, "budget", config.Budget, "longest search of one partition")
	flags.IntVar(&config.Parallel, "parallel", config.Parallel, "partitions searched at a time")
	flags.StringVar(&config.Doctor, "doctor", "", "make the history wrong first, in memory, to see that it is noticed: "+strings.Join(checker.Doctors(), ", "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name the directory of one run")
	}
	report, err := checker.Check(ctx, flags.Arg(0), config)
	if err != nil {
		return err
	}
	if err := report.Print(os.Stdout); err != nil {
		return err
	}
	if !report.OK() {
		return errNotOK
	}
	return nil
}
