package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// release is the version that this binary was built from: a tag, or "devel" with
// the commit where the go command knew it.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	version := "devel"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += "-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return version
}

// versions is the output of `cpnode version -o json`.
type versions struct {
	Version      string `json:"version"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	FeatureLevel int    `json:"feature_level"`
	StateLayout  int    `json:"state_layout"`
}

func versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Say which release this is",
		Example: "  cpnode version -o json",
		Args:    exactly(0),
	}
	output := addOutputFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versions{release(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, ops.FeatureLevel, store.SchemaVersion}
		return output.print(cmd.OutOrStdout(), v, func(p *printer) {
			p.line(fmt.Sprintf("cpnode %s (%s, %s)", v.Version, v.Go, v.Platform))
			p.line(fmt.Sprintf("feature level %d, state layout %d", v.FeatureLevel, v.StateLayout))
		})
	}
	return c
}
