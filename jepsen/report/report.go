// Package report prints what a tool measures: titled parts, lines of aligned columns in
// them, and beside what has a target whether it was met.
//
// A Report is for one goroutine at a time. What was added is printed by Flush.
package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what was measured so far, with a count of what missed its target.
type Report struct {
	out    *tabwriter.Writer
	missed int
	err    error // of what was printed before Flush: each title prints the part before it
}

// New begins an empty report that is printed to out.
func New(out io.Writer) *Report {
	return &Report{out: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

// Title begins a part.
func (r *Report) Title(format string, args ...any) {
	r.print("\n" + fmt.Sprintf(format, args...))
}

// Row is a line of cells, which are aligned with those of the lines next to it.
func (r *Report) Row(cells ...string) { r.print("  " + strings.Join(cells, "\t")) }

// Fact is a line without a target.
func (r *Report) Fact(what, format string, args ...any) {
	r.Row(what, fmt.Sprintf(format, args...), "")
}

// Judged is a line with a target, which is counted as missed unless it was met.
func (r *Report) Judged(what, got, target string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		r.missed++
	}
	r.Row(what, got, verdict+": "+target)
}

// Missed is how many targets were missed.
func (r *Report) Missed() int { return r.missed }

// Flush prints what was added, and returns the errors of all that was printed so far.
func (r *Report) Flush() error {
	r.err = errors.Join(r.err, r.out.Flush())
	return r.err
}

func (r *Report) print(line string) {
	if _, err := fmt.Fprintln(r.out, line); err != nil {
		r.err = errors.Join(r.err, err)
	}
}

// Short is a time in as many digits as mean something.
func Short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
