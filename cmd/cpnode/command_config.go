package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/config"
)

func configCommand() *cobra.Command {
	return family("config", "Show and check the configuration", groupNode, configPrintCommand(), configValidateCommand(), configReferenceCommand())
}

// loadConfig is the configuration that a command was given, checked.
func loadConfig(cmd *cobra.Command, base config.Config) (*config.Loaded, error) {
	l, err := config.Load(base, cmd.Flags(), os.Environ())
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return nil, usageError{err}
	}
	return l, nil
}

// keyValue is one line of `cpnode config print`.
type keyValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func configPrintCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "print",
		Short:   "Print every key, its value and where that came from",
		Example: "  cpnode config print --config cpnode.yaml --node-id a",
		Args:    exactly(0),
	}
	config.AddFlags(c.Flags(), config.Default())
	output := addOutputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := config.Load(config.Default(), cmd.Flags(), os.Environ())
		if err != nil {
			return usageError{err}
		}
		var values []keyValue
		var rows [][]string
		for _, k := range config.Keys {
			v := keyValue{k.Name, k.Value(&l.Config), l.Origins[k.Name]}
			values, rows = append(values, v), append(rows, []string{v.Key, v.Value, v.Origin})
		}
		return output.print(cmd.OutOrStdout(), values, func(p *printer) { p.table([]string{"KEY", "VALUE", "FROM"}, rows) })
	}
	return c
}

func configValidateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "validate",
		Short:   "Check the configuration as serve would",
		Example: "  cpnode config validate --config cpnode.yaml",
		Args:    exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := loadConfig(cmd, config.Default()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return err
		},
	}
	config.AddFlags(c.Flags(), config.Default())
	return c
}

func configReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reference",
		Short:  "Print docs/configuration.md",
		Args:   exactly(0),
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), config.Reference())
			return err
		},
	}
}
