package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/config"
)

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a node of a cluster",
		Long: `Runs a node until SIGTERM or Ctrl-C. The nodes of a cluster may be started in any
order; the first time, it forms once all of them have seen each other.`,
		Example: `  P=a=127.0.0.1:7491,b=127.0.0.1:7492,c=127.0.0.1:7493
  cpnode serve --node-id a --data-dir data-a --http-addr 127.0.0.1:7481 --raft-addr 127.0.0.1:7491 --peers $P`,
		Args:    exactly(0),
		GroupID: groupNode,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := loadConfig(cmd, config.Default())
			if err != nil {
				return err
			}
			return serve(cmd, l.Config)
		},
	}
	config.AddFlags(c.Flags(), config.Default())
	return c
}

// devConfig is what `cpnode dev` changes in the defaults: a cluster of one, which
// nobody has to reach at its raft port.
func devConfig() config.Config {
	c := config.Default()
	c.Node.NodeID, c.Node.RaftAddr = "dev", "127.0.0.1:0"
	return c
}

func devCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run one node to develop against",
		Example: `  cpnode dev               keeps its data in ./cpnode-data
  cpnode dev --ephemeral   forgets it at the end`,
		Args:    exactly(0),
		GroupID: groupNode,
	}
	config.AddFlags(c.Flags(), devConfig())
	ephemeral := c.Flags().Bool("ephemeral", false, "keep the data in a temporary directory, and remove it at the end")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		base := devConfig()
		if *ephemeral {
			dir, err := os.MkdirTemp("", "cpnode-dev-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			base.Node.DataDir = dir
		}
		l, err := loadConfig(cmd, base)
		if err != nil {
			return err
		}
		return serve(cmd, l.Config)
	}
	return c
}
