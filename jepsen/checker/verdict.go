package checker

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is what was found out about a run.
type Verdict struct {
	Violations []Violation
	Unknown    []string // what could not be decided, and why
}

// Violation is something that must never happen.
type Violation struct {
	Check string // its name, the same for all violations of a kind
	Text  string
	Lines []int // of the history
}

// Names of checks.
const (
	CheckAnswers      = "answers"                        // no error that no fault excuses
	CheckRetries      = "one effect of a retry"          // a commit has one place, whatever its attempts
	CheckRefused      = "refused has no effect"          // now or later
	CheckOffsets      = "offsets are given once"         // and to what somebody sent
	CheckHoles        = "no holes"                       // in what a node holds at the end
	CheckAcknowledged = "acknowledged is kept"           // commits are at their offsets at the end
	CheckWhole        = "a commit is whole"              // all its batches, or none
	CheckLogStart     = "log start"                      // deletes are kept, and nothing else is deleted
	CheckReplicas     = "nodes agree"                    // on what they hold, and on its digest
	CheckMinIndex     = "stale reads keep min_index"     // they are no older than asked
	CheckIndex        = "reads agree with their index"   // they saw the writes up to it, and no others
	CheckFresh        = "linearizable reads are fresh"   // they saw what was known before they began
	CheckLinearizable = "each partition is linearizable" // some order explains all answers
	CheckFiles        = "files are clean"                // says cpnode check

	CheckOwned     = "who is alone knows the answer"         // of clients with topics of their own
	CheckObjects   = "objects of live batches are kept"      // with their bytes
	CheckLeftovers = "nothing is left over"                  // objects, files and topics, when the workers had time
	CheckLeaders   = "one leader in an epoch"                // of a partition; it is in the ISR, and epochs grow
	CheckSwitch    = "a switch goes on"                      // seal and flag stay
	CheckEarlyFlag = "no flag before its time"               // the prefix is in remote storage then
	CheckUnclean   = "no unclean election of a local prefix" // which would lose it
)

// OK says that everything was decided, and nothing is wrong.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 && len(v.Unknown) == 0 }

// Word is the verdict in a few words.
func (v *Verdict) Word() string {
	switch {
	case len(v.Violations) > 0:
		return fmt.Sprintf("%d VIOLATIONS", len(v.Violations))
	case len(v.Unknown) > 0:
		return "UNDECIDED"
	}
	return "no violation"
}

func (v *Verdict) fail(check string, lines []int, format string, args ...any) {
	slices.Sort(lines)
	v.Violations = append(v.Violations, Violation{check, fmt.Sprintf(format, args...), slices.Compact(lines)})
}

func (v *Verdict) unknown(format string, args ...any) {
	v.Unknown = append(v.Unknown, fmt.Sprintf(format, args...))
}

func (v Violation) String() string {
	if len(v.Lines) == 0 {
		return v.Check + ": " + v.Text
	}
	return fmt.Sprintf("%s: %s (lines %s)", v.Check, v.Text, strings.Trim(fmt.Sprint(v.Lines), "[]"))
}
