package ops

import (
	"errors"
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// Outcome is how a write was carried out.
type Outcome struct {
	Answer any
	// Parts is how many entries were logged.
	Parts int
	// FromRead says that the answer, or the *Error in its place, was found by
	// reading and not by an entry: the proposer must confirm that it still leads
	// before it answers.
	FromRead bool
}

// Run carries a write from its request to its answer. propose logs one command,
// waits until it is applied and returns its result; clock is the proposer's.
//
// When a later part fails, what earlier parts did stands: the error is
// OUTCOME_UNKNOWN.
func Run(w Write, s Settings, read Reader, clock func() int64, propose func(Command) (any, error)) (Outcome, error) {
	steps := w.Begin(s)
	var out Outcome
	for {
		cmd := again(steps, out.Parts)
		if cmd == nil {
			var err error
			if cmd, err = nextCommand(steps, read, clock); cmd == nil || err != nil {
				out.FromRead = true
				return out.answered(steps, err)
			}
		}
		result, err := propose(cmd)
		if err != nil {
			return out, partial(out.Parts, err)
		}
		if refused, ok := result.(*Error); ok {
			return out, partial(out.Parts, refused)
		}
		out.Parts++
		if steps.Took(result) {
			return out.answered(steps, nil)
		}
	}
}

func again(steps Steps, parts int) Command {
	if s, ok := steps.(sequel); ok && parts > 0 {
		return s.Again()
	}
	return nil
}

func nextCommand(steps Steps, read Reader, clock func() int64) (cmd Command, err error) {
	err = read(func(tx *store.ReadTx) error {
		cmd, err = steps.Next(tx, max(clock(), tx.Meta().LastClockMs))
		return err
	})
	return cmd, err
}

func (o Outcome) answered(steps Steps, err error) (Outcome, error) {
	if err != nil {
		return o, partial(o.Parts, err)
	}
	o.Answer = steps.Answer()
	return o, nil
}

// partial is err, or after some parts the fact that they stand.
func partial(parts int, err error) error {
	if parts == 0 || errors.Is(err, &Error{Code: OutcomeUnknown}) {
		return err
	}
	return &Error{Code: OutcomeUnknown, Message: fmt.Sprintf("stopped after %d parts, which stand: %v", parts, err)}
}
