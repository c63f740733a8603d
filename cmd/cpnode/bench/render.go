package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

var columns = []string{"setup", "rate", "p50", "p99", "p99.9", "max", "floor", "floor p50", "floor p99", "floor p99.9", "x rate", "x p50"}

// WriteTable prints the report for a person at a terminal.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	for _, fact := range r.Facts() {
		fmt.Fprintf(&b, "%-12s %s\n", fact[0], fact[1])
	}
	widths := r.widths()
	for _, s := range r.sections() {
		fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(s.title()))
		writeRow(&b, widths, columns)
		for _, l := range s.lines {
			writeRow(&b, widths, l.cells())
			for _, text := range l.remarks() {
				fmt.Fprintf(&b, "    %s\n", text)
			}
		}
		if s.reference != "" {
			fmt.Fprintf(&b, "  %s\n", s.reference)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.score())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) widths() []int {
	widths := make([]int, len(columns))
	measure := func(cells []string) {
		for i, cell := range cells {
			widths[i] = max(widths[i], len(cell))
		}
	}
	measure(columns)
	for i := range r.Lines {
		measure(r.Lines[i].cells())
	}
	return widths
}

func writeRow(b *strings.Builder, widths []int, cells []string) {
	row := fmt.Sprintf("  %-*s", widths[0], cells[0])
	for i, cell := range cells[1:] {
		row += fmt.Sprintf("  %*s", widths[i+1], cell)
	}
	b.WriteString(strings.TrimRight(row, " ") + "\n")
}

// WriteMarkdown prints the report as a page.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWritten by `cpnode bench --markdown FILE`. Clients, nodes and floor share the machine: only ratios within one run mean something.\n\n| | |\n| --- | --- |\n")
	for _, fact := range r.Facts() {
		fmt.Fprintf(&b, "| %s | %s |\n", fact[0], fact[1])
	}
	fmt.Fprintf(&b, "\n%s\n", r.score())
	for _, s := range r.sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", s.title(), strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
		for _, l := range s.lines {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(l.cells(), " | "))
		}
		b.WriteString("\n")
		for _, l := range s.lines {
			for _, text := range l.remarks() {
				fmt.Fprintf(&b, "- %s: %s\n", l.Setup, text)
			}
		}
		if s.reference != "" {
			fmt.Fprintf(&b, "- %s\n", s.reference)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// section is the lines of one work.
type section struct {
	work      string
	reference string
	lines     []*Line
}

func (r *Report) sections() []section {
	var all []section
	for i := range r.Lines {
		l := &r.Lines[i]
		if len(all) == 0 || all[len(all)-1].work != l.Work {
			all = append(all, section{work: l.Work, reference: references[l.Work]})
		}
		all[len(all)-1].lines = append(all[len(all)-1].lines, l)
	}
	return all
}

// title is the work and the floors that its lines are compared with.
func (s *section) title() string {
	var floors []string
	for _, l := range s.lines {
		if l.Floor != nil && !slices.Contains(floors, l.Floor.Name) {
			floors = append(floors, l.Floor.Name)
		}
	}
	if len(floors) == 0 {
		return s.work
	}
	return s.work + " (floor: " + strings.Join(floors, ", ") + ")"
}

func (r *Report) score() string {
	met, all := 0, 0
	for i := range r.Lines {
		for _, t := range r.Lines[i].Targets {
			all++
			if t.Met {
				met++
			}
		}
	}
	return fmt.Sprintf("%d of %d targets met.", met, all)
}

// Facts are the lines above the table: what ran where.
func (r *Report) Facts() [][2]string {
	m := r.Machine
	return [][2]string{
		{"machine", fmt.Sprintf("%s, %d cores, %s, %s", m.CPU, m.Cores, m.Kernel, m.Memory)},
		{"file system", m.FileSystem},
		{"build", fmt.Sprintf("%s, commit %s", m.Go, m.Commit)},
		{"settings", m.Settings},
		{"run", fmt.Sprintf("%s scale, %.3g s a point, %s, took %.0f s", r.Scale.Name, r.PointSec, r.Started.UTC().Format(time.RFC3339), r.Seconds)},
	}
}

// cells are the line in the order of columns.
func (l *Line) cells() []string {
	cells := append([]string{l.Setup}, l.Figures.cells(l.Unit)...)
	if l.Floor == nil {
		return append(cells, make([]string, len(columns)-len(cells))...)
	}
	floor := l.Floor.Figures.cells(l.Unit)
	return append(append(cells, floor[:4]...), ratio(l.Floor.RateRatio), ratio(l.Floor.P50Ratio))
}

func (f *Figures) cells(unit string) []string {
	return []string{quantity(f.Rate, unit), latency(f.P50), latency(f.P99), latency(f.P999), latency(f.Max)}
}

// remarks are the targets, met or missed, and the note.
func (l *Line) remarks() []string {
	var texts []string
	for _, t := range l.Targets {
		verdict := "MISSED"
		if t.Met {
			verdict = "met"
		}
		texts = append(texts, fmt.Sprintf("%s: %s (%s)", verdict, t.Want, t.Got))
	}
	if l.Note != "" {
		texts = append(texts, l.Note)
	}
	return texts
}

func ratio(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

// quantity is three digits and a unit, or nothing.
func quantity(v float64, unit string) string {
	switch {
	case v == 0:
		return ""
	case v >= 100_000:
		return fmt.Sprintf("%.0fk %s", v/1000, unit)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	default:
		return fmt.Sprintf("%.3g %s", v, unit)
	}
}

// latency is three digits of microseconds, milliseconds or seconds, or nothing.
func latency(us float64) string {
	switch {
	case us == 0:
		return ""
	case us < 1000:
		return fmt.Sprintf("%.3gus", us)
	case us < 1e6:
		return fmt.Sprintf("%.3gms", us/1e3)
	default:
		return fmt.Sprintf("%.3gs", us/1e6)
	}
}

// references say what PostgreSQL did for the same work, measured once elsewhere:
// an order of magnitude, never part of a ratio.
var references = map[string]string{
	"commit":       referenceSource + "10 batches a file, 1/8/32/64 clients: 246/325/161/77 files/s, p99 11/101/753/2893 ms; 100 batches a file, 1/8 clients: 84/54 files/s; idempotent, 1/8 clients: 107-136/139-234 files/s",
	"find":         referenceSource + "1 client, 1 M batches: 714 fetches/s, p50 1.2 ms with the intended plan, 5-28/s once the table has statistics",
	"purge":        referenceSource + "200,000 batches, cap 20,000: 4.2-4.3 s; longest call 620-750 ms; a concurrent commit waits up to 84-92 ms, p99 27 ms (idle: max 22)",
	"prune":        referenceSource + "200,000 batches, cap 2,000: 2.2-2.9 s, call p50 20-26 ms; concurrent commit p50 20-25 ms, max 60-76 ms",
	"retention":    referenceSource + "200,000 batches, cap 2,000: 2.2-3.0 s, call p50 20-29 ms; concurrent commit p50 18-22 ms, max 41-95 ms",
	"delete-topic": referenceSource + "200,000 batches: 0.9-1.2 s before soft delete; stamp 2-4 ms",
	"size":         referenceSource + "349 bytes a batch fresh, 502 after churn",
}

const referenceSource = "Inkless on PostgreSQL 15, one node, not replicated, in another run: "
