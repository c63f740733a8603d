package main

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

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
			return false, fmt.Errorf("broker %d: %s", id, &s)
		}
	}
	return true, nil
}
