package main

import "context"

// rebuilt is what comes after oneWiped: leaders are killed until the broker whose log is short
// of the seal leads. It begins its log at the seal, from what remote storage says, and serves.
func (c *cluster) rebuilt(ctx context.Context) error {
	p, short, err := c.oneWiped(ctx)
	if err != nil {
		return err
	}
	for {
		if err := c.until(ctx, "all brokers are back", c.allServing(ctx)); err != nil {
			return err
		}
		d, err := c.ledBySomebody(ctx, p.ref)
		if err != nil {
			return err
		}
		if d.Leader == short {
			break
		}
		if err := c.kill(d.Leader); err != nil {
			return err
		}
		if _, err := c.takenOver(ctx, p.ref, d.Leader); err != nil {
			return err
		}
		if err := c.start(d.Leader); err != nil {
			return err
		}
	}
	c.say("broker %d leads, whose disk was wiped", short)
	end := p.next.Load()
	err = c.until(ctx, "the log of the leader is rebuilt", func() (bool, error) {
		s, err := c.status(ctx, short, p.ref)
		return s.LocalLogStart > 0 && s.End >= end, err
	})
	if err != nil {
		return err
	}
	c.say("its log is rebuilt up to offset %d", end)
	if err := p.send(ctx, 100, 10); err != nil {
		return err
	}
	return c.readWholeEverywhere(ctx, p.ref, p.next.Load())
}
