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
	CheckAnswers      = "answers"                        // errors that no answer may hold
	CheckRetries      = "one effect of a retry"          // one logical commit, one place
	CheckRefused      = "refused has no effect"          //
	CheckOffsets      = "offsets are given once"         //
	CheckHoles        = "no holes"                       // what a node holds at the end
	CheckAcknowledged = "acknowledged is kept"           // commits
	CheckWhole        = "a commit is whole"              // all its batches, or none
	CheckLogStart     = "log start"                      // deletes are kept, nothing else is deleted
	CheckReplicas     = "nodes agree"                    //
	CheckMinIndex     = "stale reads keep min_index"     //
	CheckIndex        = "reads agree with their index"   // linearizable or stale
	CheckFresh        = "linearizable reads are fresh"   // linear-time
	CheckLinearizable = "each partition is linearizable" // by search
	CheckFiles        = "files are clean"                // cpnode check
)

// OK says that everything was decided, and nothing is wrong.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 && len(v.Unknown) == 0 }

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
