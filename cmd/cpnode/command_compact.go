package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func compactCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "compact DIR",
		Short: "Give a stopped node's free file space back to the disk",
		Long: `Writes the state file and the raft log anew without the pages that are free in them.
Nothing they hold changes. Segments of a raft log (raft.log.store: wal) have none and
stay as they are. It needs as much free space as they will take; a crash
leaves each file as it was or compacted.`,
		Example: "  cpnode compact cpnode-data",
		Args:    exactly(1),
		GroupID: groupOffline,
	}
	output := addOutputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		show := progressOn(cmd.ErrOrStderr())
		show("compacting " + args[0])
		before, after, err := raftnode.CompactDir(cmd.Context(), store.Child{}, args[0])
		show("")
		if err != nil {
			return explainDump(err)
		}
		return output.print(cmd.OutOrStdout(), compacted{args[0], before, after}, func(p *printer) {
			p.line(fmt.Sprintf("%s: %s before, %s now", args[0], size(before), size(after)))
		})
	}
	return c
}

// compacted is the output of `cpnode compact -o json`.
type compacted struct {
	Dir         string `json:"dir"`
	BytesBefore int64  `json:"bytes_before"`
	BytesAfter  int64  `json:"bytes_after"`
}
