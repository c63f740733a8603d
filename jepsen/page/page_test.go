package page

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/jepsen/checker"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
)

// report is of a run with two commits, a fault between them, and something wrong.
func report() *checker.Report {
	second := int64(time.Second)
	r := &checker.Report{
		Records: []*history.Record{
			{Op: "commit-file", Outcome: history.OK, Invoke: 0, Return: second / 100},
			{Op: "commit-file", Outcome: history.Unknown, Invoke: second, Return: 2 * second},
			{Op: "commit-file", Outcome: history.OK, Invoke: 3 * second, Return: 4 * second},
		},
		Faults: []nemesis.Fault{{Kind: "kill leader", Nodes: []string{"<b>"}, Begin: second, End: 2 * second, Ready: 3 * second}},
		Summary: checker.Summary{
			Operations: map[string]map[history.Outcome]int{"commit-file": {history.OK: 2, history.Unknown: 1}},
			Faults:     map[string]checker.FaultFigures{"kill leader": {Times: 1, WriteGap: 2500 * time.Millisecond}},
			Partitions: 1, Length: 4 * time.Second,
		},
	}
	r.Violations = []checker.Violation{{Check: checker.CheckOffsets, Text: "offset 7 was given twice", Lines: []int{1, 3}}}
	return r
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // a run may be judged again
		path, err := Write(dir, 42, report())
		require.NoError(t, err)
		require.Equal(t, filepath.Join(dir, PageFile), path)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(data)
	}
	require.Contains(t, read(TextFile), "VIOLATION  offsets are given once: offset 7 was given twice (lines 1 3)")
	var d document
	require.NoError(t, json.Unmarshal([]byte(read(JSONFile)), &d))
	require.False(t, d.OK)
	require.Equal(t, map[string]faultFigures{"kill leader": {1, 2500}}, d.Faults)
	require.Equal(t, map[string]outcomes{"commit-file": {OK: 2, Unknown: 1}}, d.Operations)
	require.Equal(t, []int{1, 3}, d.Violations[0].Lines)
	html := read(PageFile)
	require.Contains(t, html, "offset 7 was given twice")
	require.Contains(t, html, "1 VIOLATIONS")
	require.NotContains(t, html, "<b>")
}

// The plot is well-formed, and shades the fault where it was: a half of the width from
// a quarter on.
func TestPlot(t *testing.T) {
	shaded := 0
	for d := xml.NewDecoder(strings.NewReader(string(draw(report())))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "rect" {
			continue
		}
		is := map[string]string{}
		for _, a := range e.Attr {
			is[a.Name.Local] = a.Value
		}
		if is["fill"] == shades["kill"] {
			shaded++
			require.Equal(t, "310.0", is["x"])
			require.Equal(t, "500.0", is["width"])
		}
	}
	require.Equal(t, 2, shaded)
}

// A run without an operation has a page too.
func TestNothingHappened(t *testing.T) {
	_, err := Write(t.TempDir(), 1, &checker.Report{})
	require.NoError(t, err)
}
