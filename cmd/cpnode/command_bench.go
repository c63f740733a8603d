package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/cmd/cpnode/bench"
)

// benchFlags are the command line of bench.
type benchFlags struct {
	options    bench.Options
	quick      bool
	output     *outputFormat
	markdown   string
	cpuProfile string
}

func benchCommand() *cobra.Command {
	f := benchFlags{options: bench.DefaultOptions()}
	c := &cobra.Command{
		Use: "bench [--quick]", GroupID: groupNode, Short: "Measure commits, reads and maintenance beside their floors", Args: exactly(0),
		Long: `Bench runs nodes in this process, on real files and loopback sockets, and prints
what they do beside what bounds them in the same run: the disk, Raft with a state
machine that does nothing, bare bbolt rows. It takes about a quarter of an hour and
some GiB of disk; with --quick about a minute and a half.`,
		Example: "  cpnode bench --quick\n  cpnode bench --work commit,find --nodes 3 --duration 4s -o json\n  cpnode bench --markdown BENCHMARKS.md",
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.quick {
			f.options.Scale = bench.QuickScale()
			if !c.Flags().Changed("duration") {
				f.options.Duration = bench.QuickDuration
			}
		}
		if err := f.options.Validate(); err != nil {
			return usagef("--%v", err)
		}
		return f.profiled(func() error { return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) })
	}
	flags := c.Flags()
	flags.BoolVar(&f.quick, "quick", false, "small states and short points")
	flags.StringSliceVar(&f.options.Work, "work", f.options.Work, "what to measure")
	flags.IntSliceVar(&f.options.Nodes, "nodes", f.options.Nodes, "cluster sizes, of 1 and 3")
	flags.StringVar(&f.options.Sync, "sync", f.options.Sync, "state.sync of the nodes: "+strings.Join(bench.SyncModes(), ", ")+" (interval, and always beside for commit)")
	flags.DurationVar(&f.options.Duration, "duration", f.options.Duration, "length of a measured point")
	flags.StringVar(&f.options.Dir, "dir", "", "where to keep state while it runs (default: the temporary directory)")
	f.output = addOutputFlag(c)
	flags.StringVar(&f.markdown, "markdown", "", "also write the report to this file, as a page")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "write a processor profile of the run to this file")
	_ = flags.MarkHidden("cpuprofile") // fails only for a flag that is not there
	return c
}

func (f *benchFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	show := progressOn(stderr)
	f.options.Progress = func(step string) { show(strings.TrimSpace(step)) }
	report, err := bench.Run(ctx, f.options)
	show("")
	if err != nil {
		return err
	}
	if f.markdown != "" {
		if err := writeFile(f.markdown, report.WriteMarkdown); err != nil {
			return err
		}
	}
	if *f.output == outputJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return report.WriteTable(stdout)
}

// profiled runs fn, under the profiler when a file for it is named.
func (f *benchFlags) profiled(fn func() error) error {
	if f.cpuProfile == "" {
		return fn()
	}
	return writeFile(f.cpuProfile, func(w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return fn()
	})
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
