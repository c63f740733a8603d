package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check DIR|FILE, or check --objects",
		Short: "Recount every invariant of a stopped node's files or of a backup, or look for orphaned objects",
		Long: `Reads the state file and the raft log of a data directory, or one such file, in
processes of their own, and changes nothing. Prints the digest: nodes at the same
applied index with equal digests hold equal states. Exits 1 when anything is damaged.
A file is taken for what it begins as: a backup; else for a raft log when its name
begins with raft, or for a state.

With --objects it compares the object store with the files of a running cluster, whose
nodes --endpoints names: objects that no file knows (orphans), objects of files that are
missing, and sizes that differ. The store is named as for serve, by flags, environment or
--config, and must hold nothing else below its prefix. Exits 1 when anything is found that
--delete did not mend.`,
		Example: `  cpnode check cpnode-data
  cpnode check state.cpnode -o json
  cpnode check --objects --config cpnode.yaml --endpoints http://10.0.0.1:7480
  cpnode check --objects --object.store.type directory --object.store.directory /objects --delete`,
		GroupID: groupOffline,
	}
	f := addClientFlags(c)
	objects := addObjectsFlags(c)
	c.Args = func(cmd *cobra.Command, args []string) error { return objects.checkArgs(cmd, args) }
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if objects.wanted {
			return checkObjects(cmd, f, objects)
		}
		found, err := check(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := f.output.print(cmd.OutOrStdout(), found, found.print); err != nil {
			return err
		}
		if !found.Clean {
			return errReported
		}
		return nil
	}
	return c
}

// checked is what check found: of a whole directory, or of one file.
type checked struct {
	Path  string              `json:"path"`
	Clean bool                `json:"clean"`
	Dir   *raftnode.DirReport `json:"directory,omitempty"`
	State *store.Report       `json:"state,omitempty"`
	Log   *raftnode.LogReport `json:"log,omitempty"`
}

func check(ctx context.Context, path string) (checked, error) {
	c := checked{Path: path}
	info, err := os.Stat(path)
	var damage error
	switch {
	case err != nil:
		return c, err
	case info.IsDir():
		var r raftnode.DirReport
		r, err = raftnode.CheckDir(ctx, store.Child{}, path)
		c.Dir, damage = &r, r.Err()
	case strings.HasPrefix(filepath.Base(path), "raft"):
		var r raftnode.LogReport
		r, err = raftnode.CheckLogInChild(ctx, store.Child{}, path)
		c.Log, damage = &r, r.Err()
	default:
		var r store.Report
		r, err = checkState(ctx, path)
		c.State, damage = &r, r.Err()
	}
	c.Clean = damage == nil
	return c, explainCheck(err)
}

// checkState checks a state file, or the one in a backup.
func checkState(ctx context.Context, path string) (store.Report, error) {
	backup, err := isBackup(path)
	switch {
	case err != nil:
		return store.Report{}, err
	case backup:
		return checkBackup(ctx, path)
	}
	return store.CheckInChild(ctx, path)
}

// explainCheck adds what to do to errors that do not say it themselves.
func explainCheck(err error) error {
	if errors.Is(err, raftnode.ErrNotDataDir) {
		return fmt.Errorf("%w; name a node's data directory, or one of its files", err)
	}
	return err
}

func (c checked) print(p *printer) {
	var rows [][]string
	row := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	state, log := c.parts()
	if c.Dir != nil {
		row("node", "%s", c.Dir.NodeID)
		row("cluster", "%s", c.Dir.ClusterID)
	}
	if state != nil {
		stateRows(row, state)
	}
	if log != nil {
		row("log entries", "%d to %d", log.FirstIndex, log.LastIndex)
		row("log term", "%d", log.CurrentTerm)
	}
	if c.Dir != nil {
		row("snapshot", "%s", orNone(c.Dir.SnapshotIndex))
	}
	for _, problem := range c.problems() {
		row("problem", "%s", problem)
	}
	verdict := "clean"
	if !c.Clean {
		verdict = "DAMAGED"
	}
	p.table([]string{c.Path, verdict}, rows)
}

// parts are what was checked of the two, nil what was not.
func (c checked) parts() (*store.Report, *raftnode.LogReport) {
	if c.Dir != nil {
		return &c.Dir.State, &c.Dir.Log
	}
	return c.State, c.Log
}

func stateRows(row func(name, format string, args ...any), r *store.Report) {
	if r.Digest == "" {
		row("state", "not readable")
		return
	}
	t := r.Totals
	row("applied index", "%d (term %d)", r.AppliedIndex, r.AppliedTerm)
	row("digest", "%s", r.Digest)
	row("topics", "%d", t.Topics)
	row("logs", "%d live, %d soft-deleted", t.LiveLogs, t.DeletedLogs)
	row("batches", "%d", t.Batches)
	row("files", "%d uploaded, %d deleting", t.FilesUploaded, t.FilesDeleting)
	row("producers", "%d", t.ProducerStates)
	row("fences", "%d", t.Fences)
}

// problems is everything that is wrong, whatever part it is of.
func (c checked) problems() []string {
	var all []string
	if c.Dir != nil && c.Dir.Problem != "" {
		all = append(all, c.Dir.Problem)
	}
	state, log := c.parts()
	if state != nil {
		for _, p := range state.Problems {
			all = append(all, "state: "+p)
		}
		if state.MoreProblems > 0 {
			all = append(all, fmt.Sprintf("state: %d more", state.MoreProblems))
		}
	}
	if log != nil && log.Problem != "" {
		all = append(all, "raft log: "+log.Problem)
	}
	return all
}

func orNone(index uint64) string {
	if index == 0 {
		return "none"
	}
	return "at " + strconv.FormatUint(index, 10)
}
