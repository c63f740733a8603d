package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cpnode/cpnode/ops"
)

// oneWiped is a switch during which one follower loses its disk while the seal is not
// committed; before it is in sync again, the leader is killed. The other follower leads, and
// the switch completes without the old leader. It returns the broker whose local log is short
// of the seal.
func (c *cluster) oneWiped(ctx context.Context) (p *producer, short int32, err error) {
	for range attempts {
		p, leader, wiped, err := c.wipeAndKill(ctx, "one-wiped", 1)
		if err != nil {
			return nil, 0, err
		}
		tookOver, err := c.takenOver(ctx, p.ref, leader)
		if err == nil && tookOver {
			err = c.switchCompletes(ctx, p, "another follower leads, and the switch completes")
		}
		if err == nil {
			err = c.comesBack(ctx, p, leader)
		}
		if err == nil && tookOver {
			err = c.checkFlagEntry(ctx, leader, p.ref)
		}
		if err != nil || tookOver {
			return p, wiped[0], err
		}
		c.say("the other follower was fenced before the leader was killed: again")
	}
	return nil, 0, fmt.Errorf("in %d attempts the other follower was always fenced", attempts)
}

// allWiped is the same with all followers wiped: nobody but the leader has the prefix, and
// the partition is offline until it is back.
func (c *cluster) allWiped(ctx context.Context) error {
	p, leader, _, err := c.wipeAndKill(ctx, "all-wiped", len(c.layout.Brokers)-1)
	if err != nil {
		return err
	}
	if err := c.staysOffline(ctx, p); err != nil {
		return err
	}
	c.say("nobody serves the partition, and an unclean election is refused, while broker %d is down", leader)
	return c.comesBack(ctx, p, leader)
}

// wipeAndKill fills a topic, begins the switch, keeps its leader from committing the seal,
// starts some followers on empty disks, held before their first fetch, and kills the leader.
func (c *cluster) wipeAndKill(ctx context.Context, name string, n int) (p *producer, leader int32, wiped []int32, err error) {
	if p, err = c.newTopic(ctx, name, 0); err != nil {
		return nil, 0, nil, err
	}
	if err := p.send(ctx, 1000, 50); err != nil {
		return nil, 0, nil, err
	}
	if err := c.holdAll(pointBeforeSeal); err != nil {
		return nil, 0, nil, err
	}
	if err := c.beginSwitch(ctx, p.ref); err != nil {
		return nil, 0, nil, err
	}
	d, err := c.ledBySomebody(ctx, p.ref)
	if err != nil {
		return nil, 0, nil, err
	}
	followers := slices.DeleteFunc(d.Replicas, func(id int32) bool { return id == d.Leader })
	wiped = followers[:n]
	for _, id := range wiped {
		if err := errors.Join(c.hold(pointClassicFetch, id), c.wipe(ctx, id)); err != nil {
			return nil, 0, nil, err
		}
	}
	err = c.until(ctx, "the others are in sync", func() (bool, error) {
		d, err = c.describe(ctx, p.ref)
		return err == nil && len(d.ISR) == len(d.Replicas)-n && d.Leader >= 0, err
	})
	if err != nil {
		return nil, 0, nil, err
	}
	if err := errors.Join(c.kill(d.Leader), c.releaseAll(pointBeforeSeal)); err != nil {
		return nil, 0, nil, err
	}
	c.say("broker %d, which leads, was killed", d.Leader)
	return p, d.Leader, wiped, nil
}

// ledBySomebody waits until there is a leader.
func (c *cluster) ledBySomebody(ctx context.Context, ref ops.LogRef) (d ops.DescribedPartition, err error) {
	err = c.until(ctx, "there is a leader", func() (bool, error) {
		d, err = c.describe(ctx, ref)
		return err == nil && d.Leader >= 0, err
	})
	return d, err
}

// wipe kills a broker, takes its logs away, and starts it again. The directory of its part
// of the control plane is on another disk.
func (c *cluster) wipe(ctx context.Context, broker int32) error {
	if err := c.kill(broker); err != nil {
		return err
	}
	if err := os.RemoveAll(logsDir(c.dir, broker)); err != nil {
		return err
	}
	if err := c.start(broker); err != nil {
		return err
	}
	if err := c.until(ctx, "the wiped broker is back", c.allServing(ctx)); err != nil {
		return err
	}
	c.say("broker %d is back on an empty disk", broker)
	return nil
}

// takenOver waits until another broker leads, or nobody can: the last of the ISR is down.
func (c *cluster) takenOver(ctx context.Context, ref ops.LogRef, dead int32) (yes bool, err error) {
	err = c.until(ctx, "the dead leader is fenced", func() (bool, error) {
		d, err := c.describe(ctx, ref)
		yes = d.Leader >= 0
		return err == nil && d.Leader != dead, err
	})
	return yes, err
}

// staysOffline waits until nobody leads, and then looks for a while for anybody who would
// serve the partition nevertheless.
func (c *cluster) staysOffline(ctx context.Context, p *producer) error {
	leaderless := func() (bool, error) {
		d, err := c.describe(ctx, p.ref)
		return err == nil && d.Leader == -1, err
	}
	if err := c.until(ctx, "nobody leads", leaderless); err != nil {
		return err
	}
	for range 10 {
		for _, id := range c.live() {
			if err := c.refuses(ctx, id, p); err != nil {
				return err
			}
		}
		if offline, err := leaderless(); err != nil || !offline {
			return errors.Join(errors.New("somebody leads without the prefix, or it cannot be asked"), err)
		}
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
	answer, err := c.client.ElectLeader(ctx, &ops.ElectLeaderRequest{TopicID: p.ref.TopicID, Partition: p.ref.Partition, Election: "unclean"})
	if err == nil && answer.Error != ops.EligibleLeadersNotAvailable {
		err = fmt.Errorf("unclean election answers %s", answer.Error)
	}
	return err
}

// refuses is an error if a broker without the prefix serves a consumer or a producer.
func (c *cluster) refuses(ctx context.Context, broker int32, p *producer) error {
	a, err := c.layout.address(broker)
	if err != nil {
		return err
	}
	read, err := call[consumeAnswer](ctx, a.HTTP, verbConsume, consumeRequest{p.ref, 0})
	if !errors.Is(err, errAgain) {
		return fmt.Errorf("broker %d serves without the prefix: %+v, error %s", broker, read, fmt.Sprint(err))
	}
	next := recordSet{ProducerID: 1, BaseSequence: int32(p.next.Load()), Records: []string{"taken without the prefix"}}
	written, err := call[produceAnswer](ctx, a.HTTP, verbProduce, produceRequest{p.ref, next})
	if !errors.Is(err, errAgain) {
		return fmt.Errorf("broker %d takes records without the prefix: %+v, error %s", broker, written, fmt.Sprint(err))
	}
	return nil
}

// comesBack starts the old leader, lets the wiped followers fetch, and sees the switch to
// its end.
func (c *cluster) comesBack(ctx context.Context, p *producer, leader int32) error {
	if err := errors.Join(c.releaseAll(pointClassicFetch), c.start(leader)); err != nil {
		return err
	}
	c.say("broker %d is started again", leader)
	if err := c.switchCompletes(ctx, p, "the switch is complete"); err != nil {
		return err
	}
	if err := c.until(ctx, "the killed broker is back", c.allServing(ctx)); err != nil {
		return err
	}
	if err := c.prefixDeleted(ctx, p.ref); err != nil {
		return err
	}
	return c.readWholeEverywhere(ctx, p.ref, p.next.Load())
}

// switchCompletes waits for the flag, and writes some diskless records.
func (c *cluster) switchCompletes(ctx context.Context, p *producer, what string) error {
	err := c.until(ctx, what, func() (bool, error) {
		d, err := c.describe(ctx, p.ref)
		return d.ClassicPrefixInRemoteStorage, err
	})
	if err != nil {
		return err
	}
	c.say("%s", what)
	return p.send(ctx, 100, 10)
}
