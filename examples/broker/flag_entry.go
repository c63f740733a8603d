package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// checkFlagEntry stops a broker, and looks into what it has logged, as cpnode dump does: the
// entry of the phase flag must itself have brought every live replica into the ISR, and
// moved both epochs on by one.
func (c *cluster) checkFlagEntry(ctx context.Context, broker int32, ref ops.LogRef) error {
	if err := c.stop(broker); err != nil {
		return err
	}
	dir := metaDir(c.dir, broker)
	index, err := flagIndex(ctx, dir, ref)
	if err != nil {
		return err
	}
	before, after, live, err := registrationsAt(ctx, dir, ref, index)
	if err != nil {
		return err
	}
	dead := func(id int32) bool { return !live[id] }
	if want := slices.DeleteFunc(slices.Clone(after.Replicas), dead); !slices.Equal(after.ISR, want) {
		return fmt.Errorf("entry %d: the ISR is %v, the live replicas are %v", index, after.ISR, want)
	}
	if before.Flag || !after.Flag || after.LeaderEpoch != before.LeaderEpoch+1 || after.PartitionEpoch != before.PartitionEpoch+1 {
		return fmt.Errorf("entry %d makes of %+v %+v", index, before, after)
	}
	c.say("log of broker %d, entry %d, the flag: ISR %v -> %v, leader epoch %d -> %d, partition epoch %d -> %d", broker, index,
		before.ISR, after.ISR, before.LeaderEpoch, after.LeaderEpoch, before.PartitionEpoch, after.PartitionEpoch)
	return c.start(broker)
}

// flagIndex is that of the entry that asks for the flag of a partition and is the last to do so.
func flagIndex(ctx context.Context, dir string, ref ops.LogRef) (index uint64, err error) {
	err = raftnode.DumpLog(ctx, store.Child{}, dir, func(raftnode.LogDump) error { return nil }, func(e raftnode.LogEntry) error {
		if e.Op != "commit-prefix-in-remote-storage" {
			return nil
		}
		var request struct {
			Items []ops.CommitPrefix `json:"items"`
		}
		if err := convert(e.Request, &request); err != nil {
			return err
		}
		for _, item := range request.Items {
			if item.TopicID == ref.TopicID && item.Partition == ref.Partition {
				index = e.Index
			}
		}
		return nil
	})
	if err == nil && index == 0 {
		err = fmt.Errorf("no entry of the log asks for the flag")
	}
	return index, err
}

// loggedRegistration is a registration as an entry of the log has left it.
type loggedRegistration struct {
	Replicas       []int32 `json:"replicas"`
	ISR            []int32 `json:"isr"`
	LeaderEpoch    int32   `json:"leader_epoch"`
	PartitionEpoch int32   `json:"partition_epoch"`
	Flag           bool    `json:"classic_prefix_in_remote_storage"`
}

// loggedEvent is what one entry has changed, as the state keeps it for watchers.
type loggedEvent struct {
	Index   uint64
	Changes []struct {
		Bucket string `json:"bucket"`
		Key    struct {
			BrokerID  int32         `json:"broker_id"`
			TopicID   store.TopicID `json:"topic_id"`
			Partition int32         `json:"partition"`
		} `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"changes"`
}

// registrationsAt is a partition's registration before and after an entry, and the brokers
// that were not fenced then.
func registrationsAt(ctx context.Context, dir string, ref ops.LogRef, index uint64) (before, after loggedRegistration, live map[int32]bool, err error) {
	live = map[int32]bool{}
	found := false
	err = raftnode.DumpState(ctx, store.Child{}, dir, func(raftnode.StateDump) error { return nil }, func(r store.Row) error {
		if r.Bucket != "events" {
			return nil
		}
		var e loggedEvent
		if err := convert(r.Key, &e); err != nil {
			return err
		}
		if err := convert(r.Value, &e); err != nil || e.Index > index {
			return err
		}
		target := &before
		if e.Index == index {
			target, found = &after, true
		}
		return e.follow(ref, target, live)
	})
	if err == nil && !found {
		err = fmt.Errorf("entry %d has changed nothing", index)
	}
	return before, after, live, err
}

// follow takes in what an event says of brokers and of one partition.
func (e *loggedEvent) follow(ref ops.LogRef, registration *loggedRegistration, live map[int32]bool) error {
	for _, c := range e.Changes {
		switch {
		case c.Bucket == "brokers":
			var b struct {
				Fenced bool `json:"fenced"`
			}
			if err := json.Unmarshal(c.Value, &b); err != nil {
				return err
			}
			live[c.Key.BrokerID] = !b.Fenced
		case c.Bucket == "registrations" && c.Key.TopicID == ref.TopicID && c.Key.Partition == ref.Partition:
			*registration = loggedRegistration{}
			if err := json.Unmarshal(c.Value, registration); err != nil {
				return err
			}
		}
	}
	return nil
}

// convert reads decoded JSON, as dumps have it, into a struct.
func convert(from map[string]any, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
