package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

func filesCommand() *cobra.Command {
	return family("files", "Look at the objects that hold batches", groupClient, filesListCommand())
}

func filesListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List objects, oldest commit first",
		Example: `  cpnode files list --state deleting
  cpnode files list --limit 0 -o json`,
		Args: exactly(0),
	}
	f := addClientFlags(c)
	state := c.Flags().String("state", "", "only files that are uploaded, or deleting")
	limit := c.Flags().Int("limit", pageRows, "at most so many; 0 = all")
	after := c.Flags().String("after", "", "begin behind this file id")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 0 {
			return usagef("--limit: must be >= 0")
		}
		client, err := f.connect()
		if err != nil {
			return err
		}
		defer client.Close()
		files, err := listFiles(cmd.Context(), client, *state, *after, *limit)
		if err != nil {
			return err
		}
		return f.print(cmd, files, func(p *printer) { printFiles(p, files, noFiles(*state, *after)) })
	}
	return c
}

// listFiles is the list up to limit files, 0 for all.
func listFiles(ctx context.Context, client *api.Client, state, after string, limit int) (*ops.ListFilesResponse, error) {
	all := &ops.ListFilesResponse{Next: after}
	for {
		rows := pageRows
		if limit > 0 {
			rows = min(rows, limit-len(all.Files))
		}
		page, err := client.ListFiles(ctx, &ops.ListFilesRequest{After: all.Next, Limit: int64(rows), State: state})
		if err != nil {
			return nil, err
		}
		all.Files, all.Next = append(all.Files, page.Files...), page.Next
		if page.Next == "" || len(all.Files) == limit {
			return all, nil
		}
	}
}

// noFiles is what to say when there is none of the files that were asked for.
func noFiles(state, after string) string {
	none := "no files"
	if state != "" {
		none += " in state " + state
	}
	if after != "" {
		return none + " behind " + after
	}
	return none + "; brokers make them with commit-file"
}

// printFiles prints none when there are none.
func printFiles(p *printer, files *ops.ListFilesResponse, none string) {
	rows := make([][]string, len(files.Files))
	for i, f := range files.Files {
		rows[i] = []string{strconv.FormatInt(f.FileID, 10), f.ObjectKey, f.State, size(f.Size), strconv.FormatInt(f.BatchCount, 10),
			strconv.Itoa(int(f.UploaderBrokerID)), at(f.CommittedAt), at(f.MarkedForDeletionAt)}
	}
	p.tableOr(none, []string{"ID", "OBJECT KEY", "STATE", "SIZE", "BATCHES", "BROKER", "COMMITTED", "MARKED"}, rows)
	if files.Next != "" {
		p.line("there are more: --after " + files.Next)
	}
}
