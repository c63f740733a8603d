package checker

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/jepsen/nemesis"
)

// Summary is the figures of a run.
type Summary struct {
	Operations map[string]map[history.Outcome]int // by name
	Faults     map[string]FaultFigures            // by kind
	Partitions int
	Length     time.Duration
	// WriteGap is the longest time in which no commit was acknowledged, and
	// GapAt when it began.
	WriteGap, GapAt time.Duration
	// Available is the share of 100 ms intervals in which a commit was acknowledged
	// among those in which one was under way.
	Available float64
	// Recovery is how long after a fault's end all nodes were ready: the median and
	// the longest.
	Recovery, LongestRecovery time.Duration
}

// FaultFigures are those of one kind of fault.
type FaultFigures struct {
	Times int
	// WriteGap is the longest time in which no commit was acknowledged, from the begin
	// of such a fault until all nodes were ready.
	WriteGap time.Duration
}

func summarize(records []*history.Record, faults []nemesis.Fault, partitions int) Summary {
	s := Summary{Operations: map[string]map[history.Outcome]int{}, Faults: map[string]FaultFigures{}, Partitions: partitions}
	for _, r := range records {
		name := r.Op
		switch {
		case r.Final:
			name += " (at the end)"
		case r.Stale:
			name += " (stale)"
		}
		if r.Group != "" {
			name = r.Group + ": " + name
		}
		if s.Operations[name] == nil {
			s.Operations[name] = map[history.Outcome]int{}
		}
		s.Operations[name][r.Outcome]++
		s.Length = max(s.Length, time.Duration(r.Return))
	}
	s.recovery(faults)
	acks := s.writes(records)
	for _, f := range faults {
		k := s.Faults[f.Kind]
		s.Faults[f.Kind] = FaultFigures{k.Times + 1, max(k.WriteGap, longestGap(acks, f.Begin, f.Ready))}
	}
	return s
}

// longestGap is the longest time without an ack that ends or begins between two times.
func longestGap(acks []int64, from, to int64) (longest time.Duration) {
	i, _ := slices.BinarySearch(acks, from)
	last := from
	if i > 0 {
		last = acks[i-1]
	}
	for ; i < len(acks) && last < to; i++ {
		longest, last = max(longest, time.Duration(acks[i]-last)), acks[i]
	}
	return longest
}

func (s *Summary) recovery(faults []nemesis.Fault) {
	var took []int64
	for _, f := range faults {
		took = append(took, f.Ready-f.End)
	}
	if slices.Sort(took); len(took) > 0 {
		s.Recovery, s.LongestRecovery = time.Duration(took[len(took)/2]), time.Duration(took[len(took)-1])
	}
}

// interval is the grain of availability.
const interval = 100 * time.Millisecond

// writes returns when commits were acknowledged, in order.
func (s *Summary) writes(records []*history.Record) (acks []int64) {
	asked, answered := map[int64]bool{}, map[int64]bool{}
	for _, r := range records {
		if r.Op != "commit-file" || r.Group != "" {
			continue
		}
		for i := r.Invoke / int64(interval); i <= r.Return/int64(interval); i++ {
			asked[i] = true
		}
		if r.Outcome == history.OK {
			acks = append(acks, r.Return)
			answered[r.Return/int64(interval)] = true
		}
	}
	slices.Sort(acks)
	for i := 1; i < len(acks); i++ {
		if gap := time.Duration(acks[i] - acks[i-1]); gap > s.WriteGap {
			s.WriteGap, s.GapAt = gap, time.Duration(acks[i-1])
		}
	}
	if len(asked) > 0 {
		s.Available = float64(len(answered)) / float64(len(asked))
	}
	return acks
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "OPERATION\tOK\tREFUSED\tUNKNOWN\n")
	total := map[history.Outcome]int{}
	for _, name := range slices.Sorted(maps.Keys(r.Summary.Operations)) {
		o := r.Summary.Operations[name]
		printOutcomes(w, name, o)
		for outcome, n := range o {
			total[outcome] += n
		}
	}
	printOutcomes(w, "all", total)
	fmt.Fprintf(w, "\nFAULT\tTIMES\tLONGEST WRITE GAP\n")
	for _, kind := range slices.Sorted(maps.Keys(r.Summary.Faults)) {
		f := r.Summary.Faults[kind]
		fmt.Fprintf(w, "%s\t%d\t%s\n", kind, f.Times, round(f.WriteGap))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.printVerdict(out)
}

func printOutcomes(w io.Writer, name string, o map[history.Outcome]int) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", name, o[history.OK], o[history.Refused], o[history.Unknown])
}

// printedOfACheck is how many violations of one kind are printed; the verdict counts
// all.
const printedOfACheck = 10

func (r *Report) printVerdict(out io.Writer) error {
	s := &r.Summary
	fmt.Fprintf(out, "\n%d partitions, %s\n", s.Partitions, round(s.Length))
	fmt.Fprintf(out, "longest time without an acknowledged commit: %s, from %s on\n", round(s.WriteGap), round(s.GapAt))
	fmt.Fprintf(out, "commits acknowledged in %.1f%% of the %s intervals in which one was under way\n", 100*s.Available, interval)
	fmt.Fprintf(out, "all nodes ready after a fault: %s in the middle, %s at the longest\n\n", round(s.Recovery), round(s.LongestRecovery))
	if r.Doctored != "" {
		fmt.Fprintf(out, "doctored: %s\n\n", r.Doctored)
	}
	printed := map[string]int{}
	for _, violation := range r.Violations {
		if printed[violation.Check]++; printed[violation.Check] <= printedOfACheck {
			fmt.Fprintf(out, "VIOLATION  %s\n", violation)
		}
	}
	for _, text := range r.Unknown {
		fmt.Fprintf(out, "UNKNOWN    %s\n", text)
	}
	_, err := fmt.Fprintf(out, "verdict: %s\n", r.Word())
	return err
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
