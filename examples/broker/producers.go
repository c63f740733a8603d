package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cpnode/cpnode/ops"
	switchover "github.com/cpnode/cpnode/switch"
)

// rememberedBatches of each producer can be sent again.
const rememberedBatches = 5

// errNextSequence: a producer has left records out, or this broker does not know yet that
// they are elsewhere.
var errNextSequence = errors.New("out of order sequence")

// producers knows what idempotent producers have written to local logs: by reading them.
type producers struct {
	gate   *switchover.Gate
	failed func(ops.LogRef, error)

	mu    sync.Mutex
	known map[ops.LogRef]*knownProducers
}

var _ switchover.Producers = (*producers)(nil)

// knownProducers is what a log holds below next, as long as its epochs are the same: other
// records at an offset are always of another leader epoch.
type knownProducers struct {
	epochs  []switchover.EpochStart
	next    int64
	batches map[int64][]ops.ProducerState
}

// append calls write for a batch that is new; of one that is remembered, it returns the
// offset that it has.
func (p *producers) append(ref ops.LogRef, set *recordSet, write func() (int64, error)) (base int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, err := p.catchUp(ref)
	if err != nil {
		return 0, err
	}
	next := int32(0)
	for _, s := range known.batches[set.ProducerID] {
		if s.BaseSequence == set.BaseSequence && s.LastSequence == set.lastSequence() {
			return s.AssignedOffset, nil
		}
		next = s.LastSequence + 1
	}
	if set.BaseSequence != next {
		return 0, fmt.Errorf("producer %d sends %d where %d is next: %w", set.ProducerID, set.BaseSequence, next, errNextSequence)
	}
	return write()
}

// ActiveStates implements switchover.Producers.
func (p *producers) ActiveStates(ref ops.LogRef) ([]ops.ProducerState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, err := p.catchUp(ref)
	if err != nil {
		p.failed(ref, err)
		return nil, err
	}
	states := []ops.ProducerState{}
	for _, batches := range known.batches {
		states = append(states, batches...)
	}
	return states, nil
}

// catchUp reads what has come to the log. mu is held.
func (p *producers) catchUp(ref ops.LogRef) (known *knownProducers, err error) {
	err = p.gate.WithLog(ref, func(log switchover.LocalLog) error {
		known = p.known[ref]
		if epochs := log.Epochs(); known == nil || log.EndOffset() < known.next || !slices.Equal(known.epochs, epochs) {
			known = &knownProducers{epochs: epochs, next: log.LocalLogStartOffset(), batches: map[int64][]ops.ProducerState{}}
		}
		for end := log.EndOffset(); known.next < end; {
			batches, err := log.Read(known.next, end, fetchBytes)
			if err != nil {
				return err
			}
			if err := known.add(batches); err != nil {
				return err
			}
		}
		p.known[ref] = known
		return nil
	})
	return known, err
}

func (k *knownProducers) add(batches []switchover.Batch) error {
	for i := range batches {
		set, err := decodeBatch(&batches[i])
		if err != nil {
			return err
		}
		k.next = batches[i].NextOffset()
		states := append(k.batches[set.ProducerID], ops.ProducerState{
			ProducerID: set.ProducerID, BaseSequence: set.BaseSequence, LastSequence: set.lastSequence(),
			AssignedOffset: batches[i].BaseOffset, BatchMaxTimestamp: set.TimestampMs,
		})
		k.batches[set.ProducerID] = states[max(len(states)-rememberedBatches, 0):]
	}
	return nil
}
