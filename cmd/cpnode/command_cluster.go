package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
)

func clusterCommand() *cobra.Command {
	return family("cluster", "Look at the cluster's nodes and change which they are", groupClient,
		clusterStatusCommand(), clusterJoinCommand(), clusterRemoveCommand(), clusterTransferCommand(), clusterUpgradeCommand())
}

func clusterJoinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "join NAME=ADDR",
		Short: "Add a node to the cluster",
		Long: `Adds a node that runs with an empty directory and with --peers that name the
cluster's nodes and itself. ADDR is its raft address. It learns until it has caught
up, and is then made a voter. Adding a member again changes nothing.`,
		Example: "  cpnode cluster join n4=10.0.0.4:7400",
		Args:    exactly(1),
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		name, addr, ok := strings.Cut(args[0], "=")
		if !ok || name == "" || addr == "" {
			return usagef("%q is not NAME=ADDR, such as n4=10.0.0.4:7400", args[0])
		}
		answer, err := client.ClusterJoin(cmd.Context(), &api.ClusterJoinRequest{NodeID: name, RaftAddr: addr})
		if err != nil {
			return err
		}
		return f.print(cmd, answer, func(p *printer) {
			p.line(fmt.Sprintf("%s is a member (directory %s); a new one is made a voter once it has caught up: %s cluster status", name, answer.Instance, program))
		})
	})
	return c
}

func clusterRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a node from the cluster for good",
		Long: `Removes a node; its directory cannot come back, an empty one can join again. A
leader hands over first. It is refused when the voters left that answer would be no
majority: start those first, or --force it.`,
		Example: "  cpnode cluster remove n3",
		Args:    exactly(1),
	}
	f := addClientFlags(c)
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	force := c.Flags().Bool("force", false, "also when the voters left that answer are no majority")
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		if err := confirmed(cmd, *yes, fmt.Sprintf("Remove %s from the cluster? Its directory cannot come back.", args[0])); err != nil {
			return err
		}
		answer, err := client.ClusterRemove(cmd.Context(), &api.ClusterRemoveRequest{NodeID: args[0], Force: *force})
		if err != nil {
			return err
		}
		return f.print(cmd, answer, func(p *printer) { p.line(args[0] + " is removed; its process can be stopped") })
	})
	return c
}

func clusterTransferCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "transfer [NAME]",
		Short:   "Hand leadership to another node",
		Long:    "Hands leadership to the named node, or to any voter that is up to date. Writes pause for a moment.",
		Example: "  cpnode cluster transfer n2",
		Args:    atMostOne,
	}
	f := addClientFlags(c)
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, args []string) error {
		r := &api.ClusterTransferRequest{NodeID: strings.Join(args, "")}
		answer, err := client.ClusterTransfer(cmd.Context(), r)
		if err != nil {
			return err
		}
		return f.print(cmd, answer, func(p *printer) {
			p.line("leadership was handed over to " + orUnknown(answer.LeaderID))
		})
	})
	return c
}

func clusterUpgradeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "upgrade",
		Short: "Raise the feature level to that of this release",
		Long: `Turns on what this release can do, once it runs on every node. Until then the
cluster goes on as before and every node can go back to the old release; afterwards
none can. It is refused, with the node's name, while a member does not answer or runs
an older release.`,
		Example: "  cpnode cluster upgrade",
		Args:    exactly(0),
	}
	f := addClientFlags(c)
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	c.RunE = f.with(func(cmd *cobra.Command, client *api.Client, _ []string) error {
		if err := confirmed(cmd, *yes, "Raise the feature level? No node can go back to an older release."); err != nil {
			return err
		}
		answer, err := client.ClusterUpgrade(cmd.Context(), &api.ClusterUpgradeRequest{Level: ops.FeatureLevel})
		if err != nil {
			return err
		}
		return f.print(cmd, answer, func(p *printer) {
			if answer.From == answer.To {
				p.line(fmt.Sprintf("the cluster is at feature level %d already; this release supports %d", answer.To, ops.FeatureLevel))
				return
			}
			p.line(fmt.Sprintf("feature level %d -> %d", answer.From, answer.To))
		})
	})
	return c
}

func orUnknown(name string) string {
	if name == "" {
		return "a node that is not known yet"
	}
	return name
}
