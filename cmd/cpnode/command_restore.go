package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/config"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

func restoreCommand() *cobra.Command {
	var dir, advertise string
	var self raftnode.Peer
	c := &cobra.Command{
		Use:   "restore FILE --data-dir DIR --node-id NAME",
		Short: "Make a new cluster of one node out of a backup",
		Long: `Makes the data directory of a node that is a cluster of its own, with a new cluster
id, and holds what the backup holds. The directory must be empty. Nodes of the
cluster that the backup is of have nothing to do with it. Others join it with
empty directories: cpnode cluster join.`,
		Example: "  cpnode restore state.cpnode --data-dir data-n1 --node-id n1 --raft-advertise 10.0.0.1:7400",
		Args:    exactly(1),
		GroupID: groupOffline,
	}
	c.Flags().StringVar(&dir, "data-dir", "", "directory to make, or an empty one")
	c.Flags().StringVar(&self.ID, "node-id", "", "name of the node")
	c.Flags().StringVar(&advertise, "raft-advertise", config.Default().Node.RaftAddr, "where other nodes will reach it, host:port")
	output := addOutputFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case dir == "":
			return usagef("--data-dir: must be given")
		case self.ID == "":
			return usagef("--node-id: must be given")
		}
		self.Addr = advertise
		made, err := restore(args[0], dir, self, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), made, func(p *printer) {
			p.line(fmt.Sprintf("%s holds everything up to index %d, digest %s, as node %s of the new cluster %s", dir, made.Index, made.Digest, made.NodeID, made.ClusterID))
			p.line(fmt.Sprintf("next: %s serve --node-id %s --data-dir %s --raft-addr %s", program, made.NodeID, dir, advertise))
		})
	}
	return c
}

func restore(file, dir string, self raftnode.Peer, progress io.Writer) (made raftnode.RestoreReport, err error) {
	from, err := os.Open(file)
	if err != nil {
		return made, err
	}
	defer from.Close() //nolint:errcheck // it was only read
	info, err := from.Stat()
	if err != nil {
		return made, err
	}
	made, err = raftnode.RestoreDir(&progressReader{from: from, total: info.Size(), show: showBytes(progress)}, dir, self)
	if errors.Is(err, store.ErrStream) {
		return made, fmt.Errorf("%s cannot be restored: %w", file, err)
	}
	return made, err
}

// progressReader shows how much of how much was read.
type progressReader struct {
	from        io.Reader
	done, total int64
	show        func(done, total int64)
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.done += int64(n)
	p.show(p.done, p.total)
	return n, err
}
