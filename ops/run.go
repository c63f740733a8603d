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
	// FromRead says that what was last decided was decided by reading, not by
	// an entry: the proposer must confirm that it still leads before it answers.
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
	watched := func(fn func(*store.ReadTx) error) error {
		out.FromRead = true
		return read(fn)
	}
	for {
		out.FromRead = false
		cmd, err := steps.Next(watched, clock())
		if err != nil {
			return out, partial(out.Parts, err)
		}
		if cmd == nil {
			out.Answer = steps.Answer()
			return out, nil
		}
		result, err := propose(cmd)
		if err != nil {
			return out, partial(out.Parts, err)
		}
		out.Parts++
		if refused, ok := result.(*Error); ok {
			return out, partial(out.Parts-1, refused)
		}
		steps.Took(result)
	}
}

// partial is err, or after some parts the fact that they stand.
func partial(parts int, err error) error {
	if parts == 0 || errors.Is(err, &Error{Code: OutcomeUnknown}) {
		return err
	}
	return &Error{Code: OutcomeUnknown, Message: fmt.Sprintf("stopped after %d parts, which stand: %v", parts, err)}
}

// single is the Steps of a write that is always one entry whose result is the
// response.
type single struct {
	command  Command // nil once taken, or when there is nothing to do
	response any
}

func (s *single) Next(Reader, int64) (Command, error) {
	cmd := s.command
	s.command = nil
	return cmd, nil
}

func (s *single) Took(result any) { s.response = result }

func (s *single) Answer() any { return s.response }
