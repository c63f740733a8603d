package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger"
	"github.com/cpnode/cpnode/purger/objectstore"
)

// objectsFlags are those of `cpnode check --objects`.
type objectsFlags struct {
	wanted, remove, yes bool
	olderThan           time.Duration
	limit               int
}

func addObjectsFlags(c *cobra.Command) *objectsFlags {
	f := &objectsFlags{}
	c.Flags().BoolVar(&f.wanted, "objects", false, "compare the object store with the files of a running cluster")
	c.Flags().DurationVar(&f.olderThan, "older-than", 24*time.Hour, "with --objects: spare younger objects, whose commit may be on its way")
	c.Flags().BoolVar(&f.remove, "delete", false, "with --objects: delete orphans, each behind a fence that refuses a late commit of it")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "with --delete: do not ask")
	c.Flags().IntVar(&f.limit, "limit", pageRows, "with --objects: list at most so many findings, and count them all; 0 = all")
	config.AddObjectStoreFlags(c.Flags())
	return f
}

func (f *objectsFlags) checkArgs(cmd *cobra.Command, args []string) error {
	if !f.wanted {
		return exactly(1)(cmd, args)
	}
	switch {
	case len(args) > 0:
		return usagef("--objects looks at a running cluster and takes no %s", args[0])
	case f.olderThan < 0:
		return usagef("--older-than: must be >= 0")
	case f.limit < 0:
		return usagef("--limit: must be >= 0")
	}
	return nil
}

// objectsFound is the output of `cpnode check --objects -o json`.
type objectsFound struct {
	Clean    bool                `json:"clean"`
	Findings []objectFinding     `json:"findings"`
	More     int64               `json:"more_findings"`
	Totals   purger.OrphanTotals `json:"totals"`
}

// objectFinding is a finding, and why it could not be deleted.
type objectFinding struct {
	purger.Finding
	Problem string `json:"problem,omitempty"`
}

// objectsCheck is one comparison, of a store with the files that client knows.
type objectsCheck struct {
	*objectsFlags
	cmd     *cobra.Command
	client  *api.Client
	objects *objectstore.Lazy
	before  time.Time
}

func checkObjects(cmd *cobra.Command, client *clientFlags, f *objectsFlags) error {
	objects, err := openObjects(cmd)
	if err != nil {
		return err
	}
	defer objects.Close() //nolint:errcheck // only read, or answered
	return client.with(func(cmd *cobra.Command, plane *api.Client, _ []string) error {
		c := &objectsCheck{f, cmd, plane, objects, time.Now().Add(-f.olderThan)}
		show := func(found *objectsFound) error {
			return client.output.print(cmd.OutOrStdout(), found, func(p *printer) { printObjects(p, found, f) })
		}
		found, err := c.run()
		if err == nil {
			err = show(found)
		}
		if err == nil && !found.Clean {
			err = errReported
		}
		return err
	})(cmd, nil)
}

// openObjects opens the store that flags, environment and file name.
func openObjects(cmd *cobra.Command) (*objectstore.Lazy, error) {
	l, err := config.Load(config.Default(), cmd.Flags(), os.Environ())
	if err == nil {
		err = l.ValidateObjectStore()
	}
	if err != nil {
		return nil, usageError{err}
	}
	if t := l.ObjectStore.Type; t == config.NoObjectStore || t == objectstore.TypeMemory {
		return nil, usagef("object.store.type: %q holds no objects to look at; name the store as for serve, by flags, environment or --config", t)
	}
	objects, err := l.LazyObjectStore()
	if err != nil {
		return nil, err
	}
	return objects, objects.Ready(cmd.Context())
}

// run compares, and deletes orphans when that was said or is confirmed.
func (c *objectsCheck) run() (*objectsFound, error) {
	if !c.remove {
		return c.compare(false)
	}
	if err := c.refuseEmptyCluster(); err != nil {
		return nil, err
	}
	if c.yes {
		return c.compare(true)
	}
	found, err := c.compare(false)
	if err != nil || found.Totals.Orphans == 0 {
		return found, err
	}
	question := fmt.Sprintf("Delete %d objects (%s) older than %s that no file of this cluster knows?", found.Totals.Orphans, size(found.Totals.OrphanBytes), c.olderThan)
	if err := confirmed(c.cmd, false, question); err != nil {
		return nil, err
	}
	return c.compare(true)
}

// refuseEmptyCluster: to a cluster that knows no file every object is an orphan, and most
// likely the wrong cluster was named.
func (c *objectsCheck) refuseEmptyCluster() error {
	page, err := c.client.ListFiles(c.cmd.Context(), &ops.ListFilesRequest{Limit: 1})
	if err == nil && len(page.Files) == 0 {
		err = fmt.Errorf("this cluster knows no file, so every object would be deleted: is it the right one? (--endpoints)")
	}
	return err
}

func (c *objectsCheck) compare(remove bool) (*objectsFound, error) {
	found := &objectsFound{Findings: []objectFinding{}}
	total, err := c.expected()
	if err != nil {
		return nil, err
	}
	show, began := progressOn(c.cmd.ErrOrStderr()), time.Now()
	defer show("")
	found.Totals, err = purger.FindOrphans(c.cmd.Context(), c.objects, c.client, purger.OrphanOptions{
		ModifiedBefore: c.before, Delete: remove,
		Found: func(f purger.Finding) { found.add(f, c.limit) },
		Progress: func(t purger.OrphanTotals) {
			if spent := time.Since(began); spent > progressAfter {
				show(progressText(t.Objects+t.Files, total, "objects and files", spent))
			}
		},
	})
	t := found.Totals
	found.Clean = t.Orphans == t.Deleted && t.Missing == 0 && t.SizesDiffer == 0
	return found, err
}

// progressAfter is for how long nobody needs to be told that something goes on.
const progressAfter = 2 * time.Second

// expected is how many objects and files there are to look at, if a person watches: they
// are counted in a fraction of the time that looking at them takes.
func (c *objectsCheck) expected() (total int64, err error) {
	if !isTerminal(c.cmd.ErrOrStderr()) {
		return 0, nil
	}
	if err := c.objects.List(c.cmd.Context(), "", "", func(objectstore.Object) bool { total++; return true }); err != nil {
		return 0, err
	}
	files, err := countFiles(c.cmd.Context(), c.client)
	return total + files, err
}

// countFiles is the number of files that batches refer to.
func countFiles(ctx context.Context, client *api.Client) (n int64, err error) {
	const rows = 10_000
	for after := ""; ; {
		page, err := client.ListFiles(ctx, &ops.ListFilesRequest{After: after, Limit: rows, State: "uploaded"})
		if err != nil {
			return 0, err
		}
		n += int64(len(page.Files))
		if after = page.Next; after == "" {
			return n, nil
		}
	}
}

// add keeps a finding, up to limit; 0 is all.
func (o *objectsFound) add(f purger.Finding, limit int) {
	if limit > 0 && len(o.Findings) == limit {
		o.More++
		return
	}
	finding := objectFinding{Finding: f}
	if f.Err != nil {
		finding.Problem = f.Err.Error()
	}
	o.Findings = append(o.Findings, finding)
}

func printObjects(p *printer, found *objectsFound, f *objectsFlags) {
	if len(found.Findings) > 0 {
		rows := make([][]string, len(found.Findings))
		for i, o := range found.Findings {
			rows[i] = []string{string(o.Kind), o.ObjectKey, sizeOrNone(o.Size), sizeOrNone(o.FileSize), at(o.ModifiedAt), outcome(o)}
		}
		p.table([]string{"FOUND", "OBJECT KEY", "SIZE", "FILE SAYS", "MODIFIED", "DONE"}, rows)
	}
	if found.More > 0 {
		p.line(fmt.Sprintf("and %d more: --limit 0 lists all", found.More))
	}
	t := found.Totals
	p.line(fmt.Sprintf("objects: %d looked at, of which %d are younger than %s; %d orphans (%s), %d of them deleted", t.Objects, t.YoungObjects, f.olderThan,
		t.Orphans, size(t.OrphanBytes), t.Deleted))
	p.line(fmt.Sprintf("files: %d looked at; %d objects missing, %d of another size", t.Files, t.Missing, t.SizesDiffer))
}

// sizeOrNone shows bytes exactly: sizes that differ may do so by one.
func sizeOrNone(bytes int64) string {
	if bytes < 0 {
		return "-"
	}
	return strconv.FormatInt(bytes, 10)
}

func outcome(f objectFinding) string {
	switch {
	case f.Deleted:
		return "deleted"
	case f.Problem != "":
		return "not deleted: " + f.Problem
	}
	return "-"
}
