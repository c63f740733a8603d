package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// outputFormat is the flag -o: text for people or JSON for scripts.
type outputFormat string

const (
	outputText outputFormat = "text"
	outputJSON outputFormat = "json"
)

func addOutputFlag(c *cobra.Command) *outputFormat {
	o := outputText
	c.Flags().VarP(&o, "output", "o", "text, or json for scripts")
	return &o
}

// Set takes text or json.
func (o *outputFormat) Set(text string) error {
	if f := outputFormat(text); f == outputText || f == outputJSON {
		*o = f
		return nil
	}
	return fmt.Errorf("%q is not text or json", text)
}

// String is the format's name.
func (o *outputFormat) String() string { return string(*o) }

// Type names the flag's value in help.
func (o *outputFormat) Type() string { return "format" }

// print writes v as JSON, or what text prints.
func (o *outputFormat) print(w io.Writer, v any, text func(*printer)) error {
	if *o == outputJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	p := printer{w: w}
	text(&p)
	return p.err
}

// printer writes for people, and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

// table writes rows under a header in columns.
func (p *printer) table(header []string, rows [][]string) {
	if p.err != nil {
		return
	}
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	p.err = t.Flush()
}

// tableOr is table, and without rows a line that says what there is none of, and how to
// get some.
func (p *printer) tableOr(none string, header []string, rows [][]string) {
	if len(rows) == 0 {
		p.line(none)
		return
	}
	p.table(header, rows)
}

// isTerminal says whether a person watches w, who wants to see progress.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
