package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// once is one switch from the beginning to the end, without an accident, but that all local
// copies of the prefix are overwritten as soon as they must not be trusted any more.
func (c *cluster) once(ctx context.Context) error {
	p, err := c.newTopic(ctx, "orders", 0)
	if err != nil {
		return err
	}
	if err := p.send(ctx, 10_000, 100); err != nil {
		return err
	}
	c.say("%d classic records acknowledged", p.next.Load())
	if err := c.holdAll(pointBeforeFlag); err != nil {
		return err
	}
	busy, finish := p.background(ctx)
	seal, err := c.switchAndSeal(busy, p)
	if err == nil {
		err = c.flagAndTamper(busy, p.ref, seal)
	}
	if err == nil {
		err = c.prefixDeleted(busy, p.ref)
	}
	if err := finish(err); err != nil {
		return err
	}
	c.say("every broker has deleted its prefix; %d records acknowledged, %d of them diskless", p.next.Load(), p.next.Load()-seal)
	if err := c.readWholeEverywhere(ctx, p.ref, p.next.Load()); err != nil {
		return err
	}
	if err := c.checkFlagEntry(ctx, c.layout.Brokers[1].ID, p.ref); err != nil {
		return err
	}
	return c.deleteTopic(ctx, p.ref)
}

// deleteTopic deletes the topic, and waits until no broker has anything of it.
func (c *cluster) deleteTopic(ctx context.Context, ref ops.LogRef) error {
	if _, err := c.client.DeleteTopics(ctx, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{ref.TopicID}}); err != nil {
		return err
	}
	err := c.until(ctx, "the local logs of a deleted topic are gone", func() (bool, error) {
		for _, a := range c.layout.Brokers {
			if _, err := os.Stat(logDir(logsDir(c.dir, a.ID), ref)); !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
		}
		return true, nil
	})
	if err == nil {
		c.say("topic deleted, and every broker's log of it")
	}
	return err
}

// switchAndSeal begins the switch and waits for the seal, and for 500 records after it.
func (c *cluster) switchAndSeal(ctx context.Context, p *producer) (seal int64, err error) {
	if err := c.beginSwitch(ctx, p.ref); err != nil {
		return 0, err
	}
	err = c.until(ctx, "the seal is committed", func() (bool, error) {
		d, err := c.describe(ctx, p.ref)
		seal = d.ClassicToDisklessStartOffset
		return seal >= 0, err
	})
	if err != nil {
		return 0, err
	}
	c.say("sealed at offset %d", seal)
	return seal, c.until(ctx, "diskless records are written", func() (bool, error) { return p.next.Load() >= seal+500, nil })
}

// flagAndTamper lets the flag be committed, and overwrites the prefix on all disks when
// every broker knows of the flag and before any has deleted a segment: none copies to remote
// storage meanwhile, and one that does not copy keeps what it has.
func (c *cluster) flagAndTamper(ctx context.Context, ref ops.LogRef, seal int64) error {
	if err := c.everywhere(ctx, ref, "the prefix is uploaded", func(s *statusAnswer) bool { return s.HighestRemote >= seal-1 }); err != nil {
		return err
	}
	c.say("the prefix is in remote storage, and every broker's metadata lists it")
	if err := c.setCopying(ctx, false); err != nil {
		return err
	}
	if err := c.releaseAll(pointBeforeFlag); err != nil {
		return err
	}
	if err := c.everywhere(ctx, ref, "the flag is known", func(s *statusAnswer) bool { return s.State == ops.StatePrefixInRemoteStorage }); err != nil {
		return err
	}
	c.say("flag committed, and known to every broker")
	for _, id := range c.live() {
		n, err := c.tamper(id, ref, seal)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("broker %d has no local segment of the prefix to overwrite", id)
		}
		c.say("broker %d: payloads of %d local prefix segments overwritten", id, n)
	}
	if err := c.readWholeEverywhere(ctx, ref, seal); err != nil {
		return err
	}
	return c.setCopying(ctx, true)
}

func (c *cluster) setCopying(ctx context.Context, on bool) error {
	for _, id := range c.live() {
		a, err := c.layout.address(id)
		if err != nil {
			return err
		}
		if _, err := call[empty](ctx, a.HTTP, verbCopying, copyingRequest{on}); err != nil {
			return err
		}
	}
	return nil
}
