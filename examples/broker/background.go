package main

import (
	"context"
	"errors"
	"sync"
)

// background produces, and consumes from the beginning to the end on each broker, again and
// again, until finish, which adds what became of it to an error. The first error ends the context.
func (p *producer) background(ctx context.Context) (busy context.Context, finish func(error) error) {
	busy, cancel := context.WithCancelCause(ctx)
	produce, consume := make(chan struct{}), make(chan struct{})
	var producing, consuming sync.WaitGroup
	producing.Go(func() {
		if err := p.run(busy, produce); err != nil {
			cancel(err)
		}
	})
	for _, a := range p.cluster.layout.Brokers {
		consuming.Go(func() {
			if err := p.consumeAgain(busy, a.ID, consume); err != nil {
				cancel(err)
			}
		})
	}
	return busy, func(err error) error {
		close(produce)
		producing.Wait()
		close(consume)
		consuming.Wait()
		cause := context.Cause(busy)
		cancel(nil)
		if errors.Is(err, cause) {
			return err // which says it already
		}
		return errors.Join(err, cause)
	}
}

// consumeAgain reads what is acknowledged on a broker from the beginning to the end, until
// stop is closed. The broker may be down or out of touch for a while.
func (p *producer) consumeAgain(ctx context.Context, broker int32, stop <-chan struct{}) error {
	for {
		_, err := p.cluster.readWhole(ctx, broker, p.ref, p.next.Load())
		if err != nil {
			if ctx.Err() != nil {
				return nil // somebody else has an error
			}
			return err
		}
		select {
		case <-stop:
			return nil
		default:
		}
		if err := pause(ctx, retryPause); err != nil {
			return nil
		}
	}
}
