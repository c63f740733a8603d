package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/bench"
)

func benchCommand() *cobra.Command {
	options := bench.DefaultOptions()
	var quick bool
	var output, markdown string
	c := &cobra.Command{
		Use: "bench [--quick]", GroupID: groupNode, Short: "Measure commits, reads and maintenance beside their floors", Args: exactly(0),
		Example: "  cpnode bench --quick\n  cpnode bench --work commit,find --nodes 3 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usagef("-o %q: must be table or json", output)
			}
			if quick {
				options.Scale = bench.QuickScale()
				if !c.Flags().Changed("duration") {
					options.Duration = quickDuration
				}
			}
			options.Progress = func(what string) { fmt.Fprintln(c.ErrOrStderr(), what) }
			report, err := bench.Run(c.Context(), options)
			if err != nil {
				return err
			}
			if markdown != "" {
				f, err := os.Create(markdown)
				if err != nil {
					return err
				}
				defer f.Close()
				if err := report.WriteMarkdown(f); err != nil {
					return err
				}
			}
			if output == "json" {
				return json.NewEncoder(c.OutOrStdout()).Encode(report)
			}
			return report.WriteTable(c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.BoolVar(&quick, "quick", false, "small states and short points: about a minute")
	f.StringSliceVar(&options.Work, "work", options.Work, "what to measure: "+strings.Join(bench.WorkNames(), ", "))
	f.IntSliceVar(&options.Nodes, "nodes", options.Nodes, "cluster sizes")
	f.DurationVar(&options.Duration, "duration", options.Duration, "length of each measured point")
	f.StringVar(&options.Dir, "dir", "", "where to keep state while it runs (default: the temporary directory)")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	f.StringVar(&markdown, "markdown", "", "also write the report to this file")
	return c
}

const quickDuration = 2 * time.Second
