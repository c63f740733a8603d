package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"
)

// attempts bounds how often a run tries to have a leader killed at a certain moment: one that
// is fenced just before leaves the next step of the protocol to another broker.
const attempts = 5

// killAt is a switch whose leader is killed at a point of the protocol, and comes back
// after a while. Every copy of the prefix that must not be trusted any more is overwritten.
func (c *cluster) killAt(ctx context.Context, point string, random *rand.Rand, restartAfter time.Duration) error {
	for range attempts {
		killed, err := c.tryKillAt(ctx, point, random, restartAfter)
		if err != nil {
			return fmt.Errorf("leader killed %s: %w", point, err)
		}
		if killed {
			return nil
		}
		c.say("the switch was over before a leader was killed: again")
	}
	return fmt.Errorf("in %d attempts no leader was killed %s", attempts, point)
}

func (c *cluster) tryKillAt(ctx context.Context, point string, random *rand.Rand, restartAfter time.Duration) (killed bool, err error) {
	p, err := c.newTopic(ctx, fmt.Sprintf("kill-%s-%d", point, random.Uint32()), random.IntN(len(c.layout.Brokers)))
	if err != nil {
		return false, err
	}
	if err := p.send(ctx, 500+random.IntN(1000), 1+random.IntN(100)); err != nil {
		return false, err
	}
	if err := os.WriteFile(c.killFile(point), nil, 0o600); err != nil {
		return false, err
	}
	busy, finish := p.background(ctx)
	err = c.beginSwitch(busy, p.ref)
	if err == nil {
		killed, err = c.surviveKill(busy, p, point, restartAfter)
	}
	if err == nil {
		err = c.prefixDeleted(busy, p.ref)
	}
	if err := finish(err); err != nil {
		return false, err
	}
	if err := p.send(ctx, 10, 1); err != nil {
		return false, err
	}
	return killed, c.readWholeEverywhere(ctx, p.ref, p.next.Load())
}

func (c *cluster) killFile(point string) string {
	return points{dir: pointsDir(c.dir)}.killFile(point)
}

// surviveKill waits for the kill, and starts the killed broker again after a while. It is
// false if the switch is over and nobody was killed.
func (c *cluster) surviveKill(ctx context.Context, p *producer, point string, restartAfter time.Duration) (killed bool, err error) {
	var dead int32
	err = c.until(ctx, "the leader is killed", func() (bool, error) {
		for id, process := range c.all() {
			if process.over() {
				dead = id
				return true, nil
			}
		}
		if over, _ := c.allDeleted(ctx, p.ref); !over {
			return false, nil
		}
		err := os.Remove(c.killFile(point))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // somebody has taken it, and is about to be killed
		}
		return err == nil, err
	})
	if err != nil || dead == 0 {
		return false, err
	}
	c.say("broker %d was killed %s", dead, point)
	if err := pause(ctx, restartAfter); err != nil {
		return false, err
	}
	n, err := c.tamperUntrusted(ctx, p)
	if err != nil {
		return false, err
	}
	c.say("payloads of %d local prefix segments overwritten", n)
	if err := c.start(dead); err != nil {
		return false, err
	}
	return true, c.until(ctx, "the killed broker is back", c.allServing(ctx))
}

// tamperUntrusted overwrites the prefix where the flag is known, and on brokers that are
// down if it is committed: those know it before they serve again.
func (c *cluster) tamperUntrusted(ctx context.Context, p *producer) (segments int, err error) {
	d, err := c.describe(ctx, p.ref)
	if err != nil || !d.ClassicPrefixInRemoteStorage {
		return 0, err
	}
	for id, process := range c.all() {
		if !process.over() {
			s, err := c.status(ctx, id, p.ref)
			if err != nil || !s.State.Diskless() {
				continue // it does not know of the flag yet
			}
		}
		n, err := c.tamper(id, p.ref, d.ClassicToDisklessStartOffset)
		if err != nil {
			return segments, err
		}
		segments += n
	}
	return segments, nil
}
