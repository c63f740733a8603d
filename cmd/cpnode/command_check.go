package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check DIR|FILE", GroupID: groupOffline, Short: "Recount every invariant of a stopped node's files", Args: exactly(1),
		Long: "Check reads the state file and the raft log of a data directory, or one state file, in a process of its\nown, changes nothing, and prints the digest: nodes with equal digests hold equal states.",
		RunE: func(c *cobra.Command, args []string) error { return check(c.Context(), args[0], c.OutOrStdout()) },
	}
}

func check(ctx context.Context, path string, w io.Writer) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	state, log := path, ""
	if info.IsDir() {
		state, log = filepath.Join(path, "state.db"), filepath.Join(path, "raft.db")
		if _, err := os.Stat(state); err != nil {
			return fmt.Errorf("%s is not a node's data directory: %w", path, err)
		}
	}
	report, err := store.CheckInChild(ctx, state)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	totals := report.Totals
	fmt.Fprintf(t, "state\t%s\napplied index\t%d (term %d)\ndigest\t%s\n", state, report.AppliedIndex, report.AppliedTerm, report.Digest)
	fmt.Fprintf(t, "logs\t%d live, %d soft-deleted\nbatches\t%d\nfiles\t%d uploaded, %d deleting\n",
		totals.LiveLogs, totals.DeletedLogs, totals.Batches, totals.FilesUploaded, totals.FilesDeleting)
	damage := report.Err()
	if log != "" {
		logReport, err := raftnode.CheckLogInChild(ctx, store.Child{}, log)
		if err != nil {
			return errors.Join(err, t.Flush())
		}
		fmt.Fprintf(t, "raft log\t%s\nentries\t%d to %d (term %d)\nlog digest\t%s\n", log, logReport.FirstIndex, logReport.LastIndex, logReport.CurrentTerm, logReport.Digest)
		damage = errors.Join(damage, logReport.Err())
	}
	for _, problem := range report.Problems {
		fmt.Fprintf(t, "problem\t%s\n", problem)
	}
	verdict := "clean"
	if damage != nil {
		verdict = "damaged"
	}
	fmt.Fprintf(t, "verdict\t%s\n", verdict)
	return errors.Join(damage, t.Flush())
}
