package ops

import "github.com/cpnode/cpnode/store"

// change is what a command, or one item of it, comes to on a given state: its
// answer and how to write it. It is decided by reading alone, by Steps to find
// that nothing would change and by Apply before it writes.
type change[A any] struct {
	answer A
	write  func(*store.WriteTx) error // nil: the state stays as it is
}

func (c change[A]) apply(tx *store.WriteTx) (A, error) {
	if c.write == nil {
		return c.answer, nil
	}
	return c.answer, c.write(tx)
}

// decided is a command that is one change.
type decided[A any] interface {
	Command
	decide(tx *store.ReadTx, nowMs int64) (change[A], error)
}

func applyDecided[A any](cmd decided[A], tx *store.WriteTx, nowMs int64) (any, error) {
	c, err := cmd.decide(&tx.ReadTx, nowMs)
	if err != nil {
		return nil, err
	}
	return c.apply(tx)
}

// once is the Steps of a write that is one entry, or none when nothing would
// change.
type once[A any] struct {
	command decided[A]
	answer  A
}

func (s *once[A]) Next(tx *store.ReadTx, nowMs int64) (Command, error) {
	c, err := s.command.decide(tx, nowMs)
	if err != nil || c.write != nil {
		return s.command, err
	}
	s.answer = c.answer
	return nil, nil
}

func (s *once[A]) Took(result any) bool {
	s.answer = result.(A)
	return true
}

func (s *once[A]) Answer() any { return s.answer }

// inTurn is the Steps of a write that carries out its items one after the other,
// each by entries of its own.
type inTurn[R, A any] struct {
	items   []R
	begin   func(*R) Steps
	respond func([]A) any

	present Steps // of items[0], nil before it began
	answers []A
}

func (s *inTurn[R, A]) Next(tx *store.ReadTx, nowMs int64) (Command, error) {
	for len(s.items) > 0 {
		if s.present == nil {
			s.present = s.begin(&s.items[0])
		}
		if cmd, err := s.present.Next(tx, nowMs); cmd != nil || err != nil {
			return cmd, err
		}
		s.finish()
	}
	return nil, nil
}

func (s *inTurn[R, A]) finish() {
	s.answers = append(s.answers, s.present.Answer().(A))
	s.items, s.present = s.items[1:], nil
}

func (s *inTurn[R, A]) Took(result any) bool {
	if s.present.Took(result) {
		s.finish()
	}
	return len(s.items) == 0
}

func (s *inTurn[R, A]) Again() Command {
	if next, ok := s.present.(sequel); ok {
		return next.Again()
	}
	return nil
}

func (s *inTurn[R, A]) Answer() any { return s.respond(orEmpty(s.answers)) }

// together is the Steps of a write whose items share entries. An entry takes
// items until their weights, each at least 1, pass the budget.
type together[R, A any] struct {
	items   []R
	budget  int64
	weigh   func(*R) int64
	decide  func(*store.ReadTx, *R, int64) (change[A], error)
	command func([]R) Command
	respond func([]A) any

	answers []A
}

func (s *together[R, A]) Next(tx *store.ReadTx, nowMs int64) (Command, error) {
	for len(s.items) > 0 {
		n := s.fitting()
		answers, changes, err := s.read(tx, s.items[:n], nowMs)
		if err != nil {
			return nil, err
		}
		if changes {
			return s.command(s.items[:n]), nil
		}
		s.take(answers)
	}
	return nil, nil
}

// fitting is how many items the next entry takes.
func (s *together[R, A]) fitting() int {
	n, weight := 0, int64(0)
	for n < len(s.items) && (n == 0 || weight < s.budget) {
		weight += s.weigh(&s.items[n])
		n++
	}
	return n
}

// read answers items that change nothing, or says that one would.
func (s *together[R, A]) read(tx *store.ReadTx, items []R, nowMs int64) (answers []A, changes bool, err error) {
	answers = make([]A, len(items))
	for i := range items {
		c, err := s.decide(tx, &items[i], nowMs)
		if err != nil || c.write != nil {
			return nil, true, err
		}
		answers[i] = c.answer
	}
	return answers, false, nil
}

func (s *together[R, A]) take(answers []A) {
	s.answers = append(s.answers, answers...)
	s.items = s.items[len(answers):]
}

func (s *together[R, A]) Took(result any) bool {
	s.take(result.([]A))
	return len(s.items) == 0
}

func (s *together[R, A]) Answer() any { return s.respond(orEmpty(s.answers)) }

// applyTogether carries out the items of one entry in order, each decided on
// what the ones before it left.
func applyTogether[R, A any](tx *store.WriteTx, items []R, nowMs int64, decide func(*store.ReadTx, *R, int64) (change[A], error)) (any, error) {
	answers := make([]A, len(items))
	for i := range items {
		c, err := decide(&tx.ReadTx, &items[i], nowMs)
		if err != nil {
			return nil, err
		}
		if answers[i], err = c.apply(tx); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// weightOne counts every item alike.
func weightOne[R any](*R) int64 { return 1 }

// textWeight counts a text that may be long by its length, so that entries are
// bounded in bytes too.
func textWeight(s string) int64 {
	const row = 256 // bytes that weigh as much as a row
	return int64(len(s) / row)
}

// orEmpty is the list, which an answer never leaves nil.
func orEmpty[A any](list []A) []A {
	if list == nil {
		return []A{}
	}
	return list
}
