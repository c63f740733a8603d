package main

import (
	"context"
	"crypto/rand"
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
	if err := errors.Join(err, finish()); err != nil {
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

// newTopic registers a topic of one partition, with all brokers as replicas, of which the
// first leads: leader is its place among them.
func (c *cluster) newTopic(ctx context.Context, name string, leader int) (*producer, error) {
	var id store.TopicID
	rand.Read(id[:])
	p := &producer{cluster: c, ref: ops.LogRef{TopicID: id}, at: leader}
	var replicas []int32
	for i := range c.layout.Brokers {
		replicas = append(replicas, c.layout.Brokers[(leader+i)%len(c.layout.Brokers)].ID)
	}
	if err := c.until(ctx, "all brokers are registered", c.allServing(ctx)); err != nil {
		return nil, err
	}
	answer, err := c.client.RegisterPartitions(ctx, &ops.RegisterPartitionsRequest{
		TopicID: id, TopicName: name, Config: map[string]string{"remote.storage.enable": "true"},
		Partitions: []ops.RegisterPartition{{Partition: 0, Replicas: replicas}},
	})
	if err == nil && answer.Error != ops.None {
		err = fmt.Errorf("register-partitions: %s: %s", answer.Error, answer.Message)
	}
	if err != nil {
		return nil, err
	}
	c.say("topic %s: one classic partition, replicas %v", name, replicas)
	return p, nil
}

// allServing is true when every broker is registered.
func (c *cluster) allServing(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		for _, a := range c.layout.Brokers {
			if _, err := call[empty](ctx, a.HTTP, verbReady, empty{}); err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// beginSwitch begins the switch, which all replicas must be in sync for.
func (c *cluster) beginSwitch(ctx context.Context, ref ops.LogRef) error {
	err := c.until(ctx, "the switch has begun", func() (bool, error) {
		answer, err := c.client.BeginSwitch(ctx, &ops.BeginSwitchRequest{TopicID: ref.TopicID})
		if err == nil && answer.Error != ops.None {
			err = fmt.Errorf("begin-switch: %s: %s", answer.Error, answer.Message)
		}
		return err == nil, err
	})
	if err == nil {
		c.say("begin-switch")
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

// prefixDeleted waits until no broker has a segment of the prefix.
func (c *cluster) prefixDeleted(ctx context.Context, ref ops.LogRef) error {
	return c.until(ctx, "every broker has deleted its prefix", func() (bool, error) { return c.allDeleted(ctx, ref) })
}

// allDeleted says whether no broker has a segment of the prefix any more.
func (c *cluster) allDeleted(ctx context.Context, ref ops.LogRef) (bool, error) {
	return c.onAll(ctx, ref, func(s *statusAnswer) bool {
		return s.Serving && s.State == ops.StatePrefixInRemoteStorage && s.PrefixSegments == 0
	})
}

// everywhere waits until something holds on every broker that runs.
func (c *cluster) everywhere(ctx context.Context, ref ops.LogRef, what string, holds func(*statusAnswer) bool) error {
	return c.until(ctx, what, func() (bool, error) { return c.onAll(ctx, ref, holds) })
}

// onAll says whether something holds on every broker that runs; if not, the error says where.
func (c *cluster) onAll(ctx context.Context, ref ops.LogRef, holds func(*statusAnswer) bool) (bool, error) {
	for _, id := range c.live() {
		s, err := c.status(ctx, id, ref)
		if err != nil {
			return false, err
		}
		if !holds(&s) {
			return false, fmt.Errorf("broker %d: %+v", id, s)
		}
	}
	return true, nil
}
