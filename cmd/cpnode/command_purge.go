package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

func purgeCommand() *cobra.Command {
	return family("purge", "Remove what deleted topics held", groupClient, purgeStatusCommand(), purgeRunCommand())
}

func purgeStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show what waits to be purged, and which objects wait to be deleted",
		Example: "  cpnode purge status",
		Args:    exactly(0),
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, _ []string) error {
		status, err := purgeState(cmd.Context(), client)
		if err != nil {
			return err
		}
		return f.print(cmd, status, func(p *printer) { printPurge(p, status) })
	})
	return c
}

// purgeStatus is the output of `cpnode purge status -o json`.
type purgeStatus struct {
	Topics []ops.TopicInfo `json:"topics" doc:"Deleted and not purged yet, oldest first."`
	Files  []ops.FileInfo  `json:"files" doc:"Objects to be deleted, at most 1,000."`
	// MoreFiles: there are others.
	MoreFiles bool `json:"more_files"`
}

func purgeState(ctx context.Context, client *api.Client) (*purgeStatus, error) {
	topics, err := listTopics(ctx, client)
	if err != nil {
		return nil, err
	}
	files, err := listFiles(ctx, client, "deleting", "", pageRows)
	if err != nil {
		return nil, err
	}
	deleted := slices.DeleteFunc(topics.Topics, func(t ops.TopicInfo) bool { return t.DeletedAt < 0 })
	slices.SortStableFunc(deleted, func(a, b ops.TopicInfo) int { return int(a.DeletedAt - b.DeletedAt) })
	return &purgeStatus{Topics: deleted, Files: files.Files, MoreFiles: files.Next != ""}, nil
}

func printPurge(p *printer, s *purgeStatus) {
	if len(s.Topics) == 0 {
		p.line("no deleted topic waits to be purged")
	} else {
		rows := make([][]string, len(s.Topics))
		for i, t := range s.Topics {
			rows[i] = []string{t.TopicName, t.TopicID.String(), strconv.FormatInt(t.Partitions, 10), at(t.DeletedAt)}
		}
		p.table([]string{"NAME", "ID", "LOGS LEFT", "DELETED"}, rows)
	}
	var bytes int64
	for _, f := range s.Files {
		bytes += f.Size
	}
	more := ""
	if s.MoreFiles {
		more = " or more"
	}
	p.line(fmt.Sprintf("objects to be deleted: %d%s, %s", len(s.Files), more, size(bytes)))
}

// purgeCycle is what one call takes: enough to be worth it, little enough to show
// progress and to be answered in time where the disks are slow.
const purgeCycle = 2000

func purgeRunCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Purge deleted topics until nothing is left of them",
		Long: `Purges in small log entries, so commits go on meanwhile. Objects that lost their
last batch are marked, to be deleted from the object store later.`,
		Example: "  cpnode purge run\n  cpnode purge run --max-batches 100000",
		Args:    exactly(0),
	}
	f := addClientFlags(c)
	limit := c.Flags().Int64("max-batches", 0, "stop after so many batches; 0 = when nothing is left")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 0 {
			return usagef("--max-batches: must be >= 0")
		}
		client, err := f.connect()
		if err != nil {
			return err
		}
		defer client.Close()
		total, err := purge(cmd.Context(), client, *limit, cmd.ErrOrStderr())
		if err != nil && total.BatchesDeleted+total.LogsPurged > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d batches deleted, %d logs purged before it failed; running it again goes on\n", total.BatchesDeleted, total.LogsPurged)
		}
		if err != nil {
			return err
		}
		return f.print(cmd, total, func(p *printer) {
			p.line(fmt.Sprintf("%d batches deleted, %d logs purged, %d files marked", total.BatchesDeleted, total.LogsPurged, total.FilesMarked))
			if total.MoreRemain {
				p.line("more remain")
			}
		})
	}
	return c
}

// purge calls until limit batches are gone, or with 0 until nothing is left. With an error
// the totals are those of the calls before.
func purge(ctx context.Context, client *api.Client, limit int64, progress io.Writer) (*ops.PurgeDeletedLogsResponse, error) {
	total, began := &ops.PurgeDeletedLogsResponse{}, time.Now()
	show := progressOn(progress)
	defer show("")
	for {
		cycle := int64(purgeCycle)
		if limit > 0 {
			cycle = min(cycle, limit-total.BatchesDeleted)
		}
		part, err := client.PurgeDeletedLogs(ctx, &ops.PurgeDeletedLogsRequest{MaxBatches: cycle})
		if err != nil {
			return total, err
		}
		total.BatchesDeleted += part.BatchesDeleted
		total.LogsPurged += part.LogsPurged
		total.FilesMarked += part.FilesMarked
		total.MoreRemain, total.CapReached = part.MoreRemain, part.CapReached
		moved := part.BatchesDeleted+part.LogsPurged > 0
		if !part.MoreRemain || !moved || limit > 0 && total.BatchesDeleted >= limit {
			return total, nil
		}
		show(fmt.Sprintf("%d batches, %.0f/s", total.BatchesDeleted, float64(total.BatchesDeleted)/time.Since(began).Seconds()))
	}
}
