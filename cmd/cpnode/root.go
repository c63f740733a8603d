package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cpnode/cpnode/api/wire"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "cpnode",
		Version: release(),
		Short:   "The control plane of a diskless Kafka, without a database",
		Long: `cpnode gives record batches their offsets, remembers in which object each lies,
and decides when an object may go: three nodes, one raft log, no database.`,
		Example: `  cpnode demo                              a cluster, a killed leader, nothing lost
  cpnode dev                               one node to develop against
  cpnode topic create orders --partitions 3`,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("cpnode {{.Version}}\n")
	root.AddGroup(&cobra.Group{ID: groupNode, Title: "Run a node:"}, &cobra.Group{ID: groupClient, Title: "Talk to a cluster:"}, &cobra.Group{ID: groupOffline, Title: "Look into what is stored:"})
	root.AddCommand(
		serveCommand(), devCommand(), demoCommand(), benchCommand(), configCommand(),
		clusterCommand(), topicCommand(), switchCommand(), filesCommand(), purgeCommand(), workerCommand(), backupCommand(),
		checkCommand(), restoreCommand(), recoverCommand(), dumpCommand(), replayCommand(), compactCommand(),
		versionCommand(),
	)
	return root
}

// The groups of commands in the help.
const (
	groupNode    = "node"
	groupClient  = "client"
	groupOffline = "offline"
)

// family is a command that only holds others.
func family(use, short, group string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, GroupID: group, Args: unknownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(commands...)
	return c
}

// unknownCommand refuses arguments of a command that only holds others.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return usagef("unknown command %q%s", args[0], wire.Suggest(args[0], names))
}

// exactly checks the number of arguments, which are named in a command's Use.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			noun := "arguments"
			if n == 1 {
				noun = "argument"
			}
			return usagef("takes %d %s, not %d: %s", n, noun, len(args), cmd.UseLine())
		}
		return nil
	}
}

// atMostOne is for commands whose argument may be left out.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("takes at most one argument, not %d: %s", len(args), cmd.UseLine())
	}
	return nil
}

// atLeastOne is for commands that take files.
func atLeastOne(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("takes at least one argument: %s", cmd.UseLine())
	}
	return nil
}

// flagError adds the name that was likely meant to pflag's error.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usageError{err}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name, _, _ := strings.Cut(unknown.GetSpecifiedName(), "=")
	if near := wire.Nearest(name, names); near != "" {
		return usagef("%w (did you mean --%s?)", err, near)
	}
	return usageError{err}
}
