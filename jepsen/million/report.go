package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report prints what was measured, as it comes, and counts what missed its target.
type report struct {
	out    *tabwriter.Writer
	missed int
}

func newReport(out io.Writer) *report {
	return &report{out: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

// title begins a part.
func (r *report) title(format string, args ...any) {
	fmt.Fprintf(r.out, "\n"+format+"\n", args...)
}

// fact is a line without a target.
func (r *report) fact(what, format string, args ...any) {
	fmt.Fprintf(r.out, "  %s\t%s\t\n", what, fmt.Sprintf(format, args...))
}

// judged is a line with one.
func (r *report) judged(what, got, target string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		r.missed++
	}
	fmt.Fprintf(r.out, "  %s\t%s\t%s: %s\n", what, got, verdict, target)
}

// commits are two lines of commits, the second with a bound on its p99 over the first's.
func (r *report) commits(without, with string, before, during sample, most float64) {
	r.fact(without, "%s", before)
	ratio := float64(during.quantile(0.99)) / float64(before.quantile(0.99))
	r.judged(with, during.String(), fmt.Sprintf("p99 at most %gx (%.2f)", most, ratio), ratio <= most)
}

func (r *report) flush() error { return r.out.Flush() }

// short is a time in as many digits as mean something.
func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
