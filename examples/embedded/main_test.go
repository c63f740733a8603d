package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExampleRuns(t *testing.T) { require.NoError(t, run(t.Context())) }

// The page about embedding shows lines of this program.
func TestPageShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/embedding.md")
	require.NoError(t, err)
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	known := map[string]bool{}
	for line := range strings.Lines(string(program)) {
		known[strings.TrimSpace(line)] = true
	}
	_, rest, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)
	for found {
		var code string
		code, rest, _ = strings.Cut(rest, "```")
		for line := range strings.Lines(code) {
			require.True(t, known[strings.TrimSpace(line)], "%q is not a line of main.go", line)
		}
		_, rest, found = strings.Cut(rest, "```go\n")
	}
}
