package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func recoverCommand() *cobra.Command {
	var peers string
	var dryRun, yes bool
	c := &cobra.Command{
		Use:   "recover DIR --peers NAME=ADDR,...",
		Short: "Go on with one node of a cluster that has lost its majority",
		Long: `Makes a stopped node's directory the whole of its cluster, when the majority of the
voters is lost for good. Entries that only it has become committed; what the others
committed and it never received is lost. The cluster goes on under a new id: old
members that come back are refused. The other peers are taken in when they start
with empty directories. Begin with --dry-run, on every directory that is left.`,
		Example: `  cpnode recover data-n1 --dry-run
  cpnode recover data-n1 --peers n1=10.0.0.1:7400,n2=10.0.0.2:7400,n3=10.0.0.3:7400`,
		Args:    exactly(1),
		GroupID: groupOffline,
	}
	c.Flags().StringVar(&peers, "peers", "", "members to be, this node included; empty: this node alone, at the address it had")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say what there is and what can be lost")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	output := addOutputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := config.ParsePeers(peers)
		if err != nil {
			return usagef("--peers: %v", err)
		}
		if !dryRun {
			if err := confirmed(cmd, yes, "Recover? What only the lost nodes had is given up for good."); err != nil {
				return err
			}
		}
		r, err := raftnode.RecoverDir(cmd.Context(), store.Child{}, args[0], list, dryRun)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), r, func(p *printer) { printRecovery(p, args[0], &r) })
	}
	return c
}

func printRecovery(p *printer, dir string, r *raftnode.RecoverReport) {
	p.line(fmt.Sprintf("%s: node %s of cluster %s, in term %d", dir, r.NodeID, r.ClusterID, r.CurrentTerm))
	p.line(fmt.Sprintf("log ends at index %d of term %d, state at %d, snapshot at %d", r.LastIndex, r.LastTerm, r.AppliedIndex, r.SnapshotIndex))
	var rows [][]string
	for _, m := range r.Members {
		role := "learner"
		if m.Voter {
			role = "voter"
		}
		rows = append(rows, []string{m.ID, role, m.Addr, m.Instance})
	}
	p.table([]string{"NAME", "ROLE", "RAFT ADDRESS", "INSTANCE"}, rows)
	p.line(fmt.Sprintf("%d entries may never have been committed, and become so; what others committed after index %d is lost", r.Uncertain, r.LastIndex))
	if r.NewClusterID != "" {
		p.line(fmt.Sprintf("recovered: %s is the only voter of the new cluster %s; start it, then the others with empty directories", r.NodeID, r.NewClusterID))
	}
}
