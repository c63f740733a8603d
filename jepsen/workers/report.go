package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report prints what was seen, as it comes, and counts what missed its target.
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

func (r *report) flush() error { return r.out.Flush() }

// storyRows are enough to see how it went.
const storyRows = 24

// story is what the metrics of the leader of the moment said over time, beside what was
// there. Counters begin again with each leader.
func (r *report) story(samples []sample) {
	r.title("What /metrics of the leader said, beside what was there")
	fmt.Fprintln(r.out, "  AFTER\tLEADER\tPURGED\tMARKED\tPURGE WAITS\tDELETED\tFORGOTTEN\tCLEAN WAITS\tFILES MARKED\tOBJECTS\tSTATE")
	step := max(1, (len(samples)+storyRows-1)/storyRows)
	for i, s := range samples {
		if i%step == 0 || i == len(samples)-1 {
			r.moment(s)
		}
	}
}

func (r *report) moment(s sample) {
	value := func(name string) string {
		if s.leader == "" {
			return "-"
		}
		return fmt.Sprintf("%.0f", s.metrics["cpnode_"+name])
	}
	fmt.Fprintf(r.out, "  %s\t%s\t%s\t%s\t%s s\t%s\t%s\t%s s\t%d\t%d\t%s\n", short(s.at), orDash(s.leader), value("topic_purger_batches_total"),
		value("topic_purger_files_marked_total"), value("topic_purger_oldest_waiting_age_seconds"), value("file_cleaner_objects_deleted_total"),
		value("file_cleaner_files_total"), value("file_cleaner_oldest_waiting_age_seconds"), s.marked, s.objects, megabytes(s.stateBytes))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.2f MB", float64(bytes)/1e6) }

// short is a time in as many digits as mean something.
func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
