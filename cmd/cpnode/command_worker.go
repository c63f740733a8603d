package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

func workerCommand() *cobra.Command {
	return family("worker", "Have the leader's background workers do their work now", groupClient, workerRunCommand())
}

// cyclePatience is how long a cycle is waited for: less than the two minutes that a node
// has for an answer.
const cyclePatience = 110 * time.Second

func workerRunCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run NAME",
		Short: "Carry out one cycle of a worker of the leader now",
		Long: `Waits for a cycle that is under way, carries out one more and prints what it did.
NAME is topic-purger, file-cleaner (where there is an object store),
consolidation-pruner, cross-tier-reporter, retention-enforcer, producer-expirer,
fence-expirer or replay-expirer. Exits 1 when the cycle failed, also after it did
something. One that takes longer than two minutes is broken off; what it did stands.`,
		Example: `  cpnode worker run topic-purger
  cpnode worker run file-cleaner -o json`,
		Args: exactly(1),
	}
	f := addClientFlags(c)
	f.attempt = cyclePatience
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		answer, err := client.RunWorker(cmd.Context(), &api.RunWorkerRequest{Worker: args[0]})
		if err != nil {
			return err
		}
		if err := f.print(cmd, answer, func(p *printer) { printTotals(p, answer) }); err != nil {
			return err
		}
		if answer.Error != ops.None {
			return fmt.Errorf("%s has failed half-way: %s", args[0], answer.Message)
		}
		return nil
	})
	return c
}

func printTotals(p *printer, answer *api.RunWorkerResponse) {
	rows := make([][]string, len(answer.Totals))
	for i, t := range answer.Totals {
		rows[i] = []string{t.Name, strconv.FormatInt(t.Value, 10)}
	}
	p.table([]string{"TOTAL", "VALUE"}, rows)
}
