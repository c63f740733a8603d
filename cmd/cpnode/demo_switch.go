package main

import (
	"context"
	"fmt"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// demoLedger is the classic topic that is turned into a diskless one.
var demoLedger = loadTopic{id: store.TopicID{0x0d, 6: 0x40, 8: 0x80, 15: 3}, name: "ledger", partitions: 1}

const (
	demoBrokers = 3
	demoSeal    = 1000 // classic records of the partition when it is sealed
)

// turnDiskless says of three brokers what they would say while they turn a classic topic
// into a diskless one, and shows what a watch has seen of it.
func (s *story) turnDiskless(ctx context.Context) error {
	all := s.cluster.all
	var before api.Info
	if _, err := all.ListTopics(ctx, &ops.ListTopicsRequest{Limit: 1}, api.Observe(&before)); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *api.Client) error{registerDemoBrokers, registerDemoLedger, beginDemoSwitch, sealDemoLedger, flagDemoLedger, fenceDemoBrokers} {
		if err := step(ctx, all); err != nil {
			return err
		}
	}
	s.say("topic %s went from classic to diskless; a watch of it, from before it was there:", demoLedger.name)
	return s.replayWatch(ctx, before.AppliedIndex)
}

func registerDemoBrokers(ctx context.Context, all *api.Client) error {
	for id := range int32(demoBrokers) {
		registered, err := all.RegisterBroker(ctx, &ops.RegisterBrokerRequest{BrokerID: id, IncarnationID: "demo", CleanShutdown: true})
		if err != nil {
			return err
		}
		beat, err := all.BrokerHeartbeat(ctx, &ops.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: registered.BrokerEpoch})
		if err != nil {
			return err
		}
		if err := refused("broker-heartbeat", beat.Error); err != nil {
			return err
		}
	}
	return nil
}

func registerDemoLedger(ctx context.Context, all *api.Client) error {
	r, err := all.RegisterPartitions(ctx, &ops.RegisterPartitionsRequest{TopicID: demoLedger.id, TopicName: demoLedger.name,
		Partitions: []ops.RegisterPartition{{Replicas: []int32{0, 1, 2}}}, Config: map[string]string{"remote.storage.enable": "true"}})
	if err != nil {
		return err
	}
	return refused("register-partitions", r.Error)
}

func beginDemoSwitch(ctx context.Context, all *api.Client) error {
	r, err := all.BeginSwitch(ctx, &ops.BeginSwitchRequest{TopicID: demoLedger.id})
	if err != nil {
		return err
	}
	return refused("begin-switch "+r.Message, r.Error)
}

func sealDemoLedger(ctx context.Context, all *api.Client) error {
	p, err := demoPartition(ctx, all)
	if err != nil {
		return err
	}
	r, err := all.CommitSeal(ctx, &ops.CommitSealRequest{Requests: []ops.CommitSeal{{TopicID: demoLedger.id, BrokerID: p.Leader, LeaderEpoch: p.LeaderEpoch,
		DisklessStartOffset: demoSeal}}})
	if err != nil {
		return err
	}
	return refused("commit-seal", r.Responses[0].Error)
}

func flagDemoLedger(ctx context.Context, all *api.Client) error {
	p, err := demoPartition(ctx, all)
	if err != nil {
		return err
	}
	r, err := all.CommitPrefixInRemoteStorage(ctx, &ops.CommitPrefixInRemoteStorageRequest{Requests: []ops.CommitPrefix{{TopicID: demoLedger.id, BrokerID: p.Leader,
		LeaderEpoch: p.LeaderEpoch, HighestRemoteOffset: demoSeal - 1}}})
	if err != nil {
		return err
	}
	return refused("commit-prefix-in-remote-storage", r.Responses[0].Error)
}

// fenceDemoBrokers ends the sessions of brokers that nobody will hear any more.
func fenceDemoBrokers(ctx context.Context, all *api.Client) error {
	for id := range int32(demoBrokers) {
		r, err := all.FenceBroker(ctx, &ops.FenceBrokerRequest{BrokerID: id})
		if err != nil {
			return err
		}
		if err := refused("fence-broker", r.Error); err != nil {
			return err
		}
	}
	return nil
}

func demoPartition(ctx context.Context, all *api.Client) (ops.DescribedPartition, error) {
	r, err := all.DescribePartitions(ctx, &ops.DescribePartitionsRequest{Requests: []ops.LogRef{{TopicID: demoLedger.id}}})
	if err != nil {
		return ops.DescribedPartition{}, err
	}
	return r.Responses[0], refused("describe-partitions", r.Responses[0].Error)
}

// replayWatch prints what a watch shows of the partition up to its last change.
func (s *story) replayWatch(ctx context.Context, from uint64) error {
	last, err := demoPartition(ctx, s.cluster.all)
	if err != nil {
		return err
	}
	w := &watch{out: s.out, names: map[store.TopicID]string{}}
	var states []ops.PartitionState
	for event, err := range s.cluster.all.Watch(ctx, from) {
		if err != nil {
			return err
		}
		lines := w.lines(&event)
		for i := range event.Partitions {
			fmt.Fprintf(s.out, "         %-6d %s\n", event.Index, lines[len(lines)-len(event.Partitions)+i])
			states = append(states, event.Partitions[i].State)
		}
		if n := len(event.Partitions); n > 0 && event.Partitions[n-1].PartitionEpoch == last.PartitionEpoch {
			break
		}
	}
	for i, want := range []ops.PartitionState{ops.StateClassic, ops.StateSwitchPending, ops.StatePrefixWaitingForUpload, ops.StatePrefixInRemoteStorage} {
		if i >= len(states) || states[i] != want {
			return fmt.Errorf("the watch showed the states %v", states)
		}
	}
	return nil
}
