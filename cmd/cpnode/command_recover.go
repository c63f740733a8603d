package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// recoverFlags are the command line of recover.
type recoverFlags struct {
	peers  string
	dryRun bool
	yes    bool
	output *outputFormat
}

func recoverCommand() *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use:   "recover DIR [DIR...] [--dry-run]",
		Short: "Go on from one directory after the majority was lost for good",
		Long: `Makes the directory of a stopped node the whole of its cluster, under a new cluster
id: old members that come back after all are refused. What the lost nodes had
committed and this directory does not have is lost; nothing here can tell how much.

With --dry-run it changes nothing and may be given the directories of all nodes that
are left: it says how far each has come and which to recover from.`,
		Example: `  cpnode recover --dry-run data-n1 data-n2
  cpnode recover data-n2 --peers n2=10.0.0.2:7400,n4=10.0.0.4:7400`,
		Args:    atLeastOne,
		GroupID: groupOffline,
	}
	f.output = addOutputFlag(c)
	c.Flags().StringVar(&f.peers, "peers", "", "members from now on, id=host:port,...: this node votes, the others are taken in when they start with empty directories; empty: this node alone")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what each directory holds and what can be lost")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	c.RunE = func(cmd *cobra.Command, dirs []string) error { return f.run(cmd, dirs) }
	return c
}

func (f *recoverFlags) run(cmd *cobra.Command, dirs []string) error {
	if len(dirs) > 1 && !f.dryRun {
		return usagef("one directory is recovered from; --dry-run compares several")
	}
	peers, err := config.ParsePeers(f.peers)
	if err != nil {
		return usagef("--peers: %w", err)
	}
	found, err := examineDirs(cmd.Context(), dirs, peers)
	if err != nil {
		return err
	}
	for _, r := range found[1:] {
		if r.ClusterID != found[0].ClusterID {
			return fmt.Errorf("%s is of cluster %s, %s of %s: how far they have come cannot be compared", found[0].Dir, found[0].ClusterID, r.Dir, r.ClusterID)
		}
	}
	if f.dryRun {
		return f.output.print(cmd.OutOrStdout(), found, func(p *printer) { printRecoverable(p, found) })
	}
	printRecoverable(&printer{w: cmd.ErrOrStderr()}, found)
	if err := confirmed(cmd, f.yes, "Make "+dirs[0]+" the whole of a new cluster?"); err != nil {
		return err
	}
	done, err := raftnode.RecoverDir(cmd.Context(), store.Child{}, dirs[0], peers, false)
	if err != nil {
		return explainRecover(dirs[0], err)
	}
	return f.output.print(cmd.OutOrStdout(), done, func(p *printer) {
		p.line(fmt.Sprintf("%s is node %s of the new cluster %s; start it as before", dirs[0], done.NodeID, done.NewClusterID))
	})
}

// recoverable is a directory and what it holds.
type recoverable struct {
	Dir string `json:"dir"`
	raftnode.RecoverReport
}

func examineDirs(ctx context.Context, dirs []string, peers []raftnode.Peer) ([]recoverable, error) {
	found := make([]recoverable, len(dirs))
	for i, dir := range dirs {
		r, err := raftnode.RecoverDir(ctx, store.Child{}, dir, peers, true)
		if err != nil {
			return nil, explainRecover(dir, err)
		}
		found[i] = recoverable{dir, r}
	}
	return found, nil
}

func explainRecover(dir string, err error) error {
	if errors.Is(err, raftnode.ErrLocked) {
		return err
	}
	return fmt.Errorf("%s: %w", dir, explainDump(err))
}

func printRecoverable(p *printer, found []recoverable) {
	rows := make([][]string, len(found))
	for i, r := range found {
		var members []string
		for _, m := range r.Members {
			if m.Addr == "" {
				members = append(members, m.ID+" in another directory")
				continue
			}
			members = append(members, m.ID+"="+m.Addr)
		}
		number := func(n uint64) string { return strconv.FormatUint(n, 10) }
		rows[i] = []string{r.Dir, r.NodeID, number(r.LastIndex), number(r.LastTerm), number(r.AppliedIndex), number(r.Uncertain), strings.Join(members, ",")}
	}
	p.table([]string{"DIRECTORY", "NODE", "LAST INDEX", "LAST TERM", "APPLIED", "UNCERTAIN", "MEMBERS"}, rows)
	for _, r := range found {
		if r.Removed {
			p.line(fmt.Sprintf("%s was removed from its cluster, which has gone on without it", r.Dir))
		}
	}
	best := furthest(found)
	switch {
	case len(found) > 1:
		p.line(fmt.Sprintf("recover from %s: no other of these has come further", best.Dir))
	case len(best.Members) > 1:
		p.line("another node that is left may have come further, with acknowledged writes that this one does not have: compare all that are left with --dry-run")
	}
	if best.Uncertain > 0 {
		p.line(fmt.Sprintf("%d entries after the applied ones may never have been committed; they become part of the state", best.Uncertain))
	}
	p.line(fmt.Sprintf("what the lost nodes committed after index %d is lost; nothing here can tell how much that is", best.LastIndex))
}

// furthest is the directory that an election would prefer: by last term, then by
// last index.
func furthest(found []recoverable) recoverable {
	best := found[0]
	for _, r := range found[1:] {
		if r.LastTerm > best.LastTerm || r.LastTerm == best.LastTerm && r.LastIndex > best.LastIndex {
			best = r
		}
	}
	return best
}
