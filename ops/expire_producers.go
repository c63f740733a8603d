package ops

import (
	"fmt"

	"github.com/cpnode/cpnode/store"
)

// ExpireProducersRequest forgets idempotent producers that no longer write.
type ExpireProducersRequest struct {
	IdleBefore int64  `json:"idle_before" doc:"Unix ms; producers whose last batch was accepted before it go."`
	After      string `json:"after" default:"" doc:"The last answer's next; empty = from the start."`
	MaxRows    int64  `json:"max_rows" min:"0" doc:"Cap of producers removed; 0 = none."`
}

// ExpireProducersResponse counts the producers removed. Next is where to go on
// when the cap, or the bound of what one request looks at, left some unseen.
type ExpireProducersResponse struct {
	Removed int64  `json:"removed"`
	Next    string `json:"next"`
}

// Validate reads the position.
func (r *ExpireProducersRequest) Validate(Limits) error {
	_, err := parseProducerRef(r.After)
	return err
}

// producerRef names one producer state; its order is that of the store.
type producerRef struct {
	logID      uint64
	producerID int64
}

// String is the position in an answer.
func (p producerRef) String() string { return fmt.Sprintf("%d:%d", p.logID, p.producerID) }

func parseProducerRef(s string) (producerRef, error) {
	var p producerRef
	if s == "" {
		return p, nil
	}
	if _, err := fmt.Sscanf(s, "%d:%d", &p.logID, &p.producerID); err != nil || p.String() != s {
		return p, invalid("after", "is not a position that an answer gave")
	}
	return p, nil
}

// Begin logs entries of s.ExpireRows producers.
func (r *ExpireProducersRequest) Begin(s Settings) Steps {
	after, _ := parseProducerRef(r.After) // Validate refused any other
	return &expireProducersSteps{idleBefore: r.IdleBefore, after: after, left: budget(r.MaxRows), rows: s.ExpireRows, look: s.Limits.AnswerRows}
}

// expireProducersSteps looks for idle producers by reading: entries hold only those.
type expireProducersSteps struct {
	idleBefore int64
	after      producerRef // last one looked at
	unseen     bool        // producers follow it
	left       int64       // of the client's cap
	look       int         // producers that may still be looked at
	rows       int64
	answer     ExpireProducersResponse
}

func (s *expireProducersSteps) Next(tx *store.ReadTx, _ int64) (Command, error) {
	idle, err := s.findIdle(tx)
	if err != nil || len(idle) > 0 {
		return &dropIdleProducers{idleBefore: s.idleBefore, producers: idle}, err
	}
	s.finish()
	return nil, nil
}

func (s *expireProducersSteps) findIdle(tx *store.ReadTx) ([]producerRef, error) {
	var idle []producerRef
	limit := min(s.rows, s.left)
	s.unseen = false
	err := tx.Producers(s.after.logID, s.after.producerID, func(logID uint64, id int64, p *store.Producer) bool {
		if s.look == 0 || int64(len(idle)) >= limit {
			s.unseen = true
			return false
		}
		s.look--
		s.after = producerRef{logID, id}
		if p.UpdatedAt < s.idleBefore {
			idle = append(idle, s.after)
		}
		return true
	})
	return idle, err
}

func (s *expireProducersSteps) Took(result any) bool {
	removed := result.(int64)
	s.answer.Removed += removed
	s.left -= removed
	if s.unseen && s.left > 0 && s.look > 0 {
		return false
	}
	s.finish()
	return true
}

func (s *expireProducersSteps) finish() {
	if s.unseen {
		s.answer.Next = s.after.String()
	}
}

func (s *expireProducersSteps) Answer() any { return &s.answer }

// dropIdleProducers is the logged command.
type dropIdleProducers struct {
	idleBefore int64
	producers  []producerRef
}

func (*dropIdleProducers) Op() string { return "expire-producers" }

func (c *dropIdleProducers) fields(f *codec) {
	f.object(2, func(f *codec) {
		f.int64(&c.idleBefore)
		list(f, &c.producers, 2, func(f *codec, p *producerRef) {
			f.uint64(&p.logID)
			f.int64(&p.producerID)
		})
	})
}

// Apply removes those of the command's producers that are still idle.
func (c *dropIdleProducers) Apply(tx *store.WriteTx, _ int64) (any, error) {
	removed := int64(0)
	for _, ref := range c.producers {
		p, ok, err := tx.Producer(ref.logID, ref.producerID)
		if err != nil {
			return nil, err
		}
		if !ok || p.UpdatedAt >= c.idleBefore {
			continue
		}
		if err := tx.DropProducer(ref.logID, ref.producerID); err != nil {
			return nil, err
		}
		removed++
	}
	return removed, nil
}
