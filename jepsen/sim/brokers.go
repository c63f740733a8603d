package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// brokers is a client that is three brokers, which take one classic topic after the
// other through the switch. Whatever it is refused, what it was told stays true.
type brokers struct {
	*owner
	starts [brokerCount]int // of each: its incarnation is the number of its start
	epochs [brokerCount]int64
	known  [switchedLogs]registration
}

const (
	brokerCount  = 3
	firstBroker  = 100
	switchedLogs = 2
)

// registration is what was read of one partition.
type registration struct {
	last    ops.DescribedPartition
	leaders map[int32]int32 // by leader epoch
}

func newBrokers(c *cluster, id int) *brokers { return &brokers{owner: newOwner(c, id)} }

// live works until ctx ends.
func (b *brokers) live(ctx context.Context) {
	for i := range b.epochs {
		if b.start(i) == "" {
			return
		}
		b.expect(b.starts[i] == 1, "broker %d is not registered", firstBroker+i)
	}
	for ctx.Err() == nil {
		b.step()
		pause(ctx, time.Duration(b.random.Int64N(int64(time.Second))))
	}
}

// start registers a broker in a new incarnation, which gets a higher epoch; "" if there is no
// answer. While the one before is not fenced, it is refused.
func (b *brokers) start(i int) ops.Code {
	id := firstBroker + int32(i)
	answer := ask(b.owner, "register-broker", api.ControlPlane.RegisterBroker, &ops.RegisterBrokerRequest{BrokerID: id, IncarnationID: fmt.Sprint(b.starts[i] + 1), CleanShutdown: true}, "")
	if answer == nil {
		return ""
	}
	if answer.Error == ops.None {
		b.expect(answer.BrokerEpoch > b.epochs[i], "broker %d was registered under epoch %d after %d", id, answer.BrokerEpoch, b.epochs[i])
		b.starts[i], b.epochs[i] = b.starts[i]+1, answer.BrokerEpoch
	}
	return answer.Error
}

// restart fences a broker and starts it. It stays as it was where a heartbeat that was under
// way for long has come in between.
func (b *brokers) restart(i int) {
	ask(b.owner, "fence-broker", api.ControlPlane.FenceBroker, &ops.FenceBrokerRequest{BrokerID: firstBroker + int32(i)}, "")
	b.start(i)
}

// beat says that a broker lives. Its epoch is stale only if a start that was refused has been
// carried out since, which asking again tells.
func (b *brokers) beat(i int) {
	id := firstBroker + int32(i)
	answer := ask(b.owner, "broker-heartbeat", api.ControlPlane.BrokerHeartbeat, &ops.BrokerHeartbeatRequest{BrokerID: id, BrokerEpoch: b.epochs[i]}, "")
	switch {
	case answer == nil || answer.Error == ops.None:
	case answer.Error == ops.StaleBrokerEpoch:
		code := b.start(i)
		b.expect(code == ops.None || code == "", "the epoch of broker %d is stale, and its start is refused: %s", id, code)
	default:
		b.fail("heartbeat of broker %d: %s", id, answer.Error)
	}
}

// step lets all brokers say that they live, and takes the topic one step further.
func (b *brokers) step() {
	for i := range b.epochs {
		b.beat(i)
	}
	if b.random.IntN(20) == 0 {
		b.restart(b.random.IntN(brokerCount))
	}
	if b.topic.IsZero() {
		b.register()
		return
	}
	if b.random.IntN(5) == 0 {
		ask(b.owner, "fence-broker", api.ControlPlane.FenceBroker, &ops.FenceBrokerRequest{BrokerID: firstBroker + b.random.Int32N(brokerCount)}, "")
	}
	switch b.read(); b.state() {
	case ops.StateClassic:
		b.growISRs()
		ask(b.owner, "begin-switch", api.ControlPlane.BeginSwitch, &ops.BeginSwitchRequest{TopicID: b.topic}, "")
	case ops.StateSwitchPending:
		b.seal()
	case ops.StatePrefixWaitingForUpload:
		b.upload()
	default:
		ask(b.owner, "delete-topics", api.ControlPlane.DeleteTopics, &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{b.topic}}, "")
		b.topic = store.TopicID{}
	}
}

func (b *brokers) register() {
	b.made++
	b.topic, b.known = store.TopicID{0x0b, byte(b.id), 6: 0x40, 8: 0x80, 15: byte(b.made)}, [switchedLogs]registration{}
	request := &ops.RegisterPartitionsRequest{TopicID: b.topic, TopicName: fmt.Sprintf("classic-%d", b.made), Config: map[string]string{"remote.storage.enable": "true"}}
	for p := range int32(switchedLogs) {
		b.known[p] = registration{leaders: map[int32]int32{}}
		request.Partitions = append(request.Partitions, ops.RegisterPartition{Partition: p, Replicas: []int32{firstBroker, firstBroker + 1, firstBroker + 2}})
	}
	if answer := ask(b.owner, "register-partitions", api.ControlPlane.RegisterPartitions, request, ""); answer != nil {
		b.expect(answer.Error == ops.None, "%s was not registered: %s %s", b.topic, answer.Error, answer.Message)
	}
}

// read reads the registrations: epochs only grow, no epoch has two leaders, a seal and
// the flag stay as they are.
func (b *brokers) read() {
	request := &ops.DescribePartitionsRequest{}
	for p := range int32(switchedLogs) {
		request.Requests = append(request.Requests, ops.LogRef{TopicID: b.topic, Partition: p})
	}
	answer := ask(b.owner, "describe-partitions", api.ControlPlane.DescribePartitions, request, "")
	if answer == nil {
		return
	}
	for _, d := range answer.Responses {
		r := &b.known[d.Partition]
		b.expect(d.Error == ops.None, "partition %d of %s: %s", d.Partition, b.topic, d.Error)
		b.expect(d.LeaderEpoch >= r.last.LeaderEpoch && d.PartitionEpoch >= r.last.PartitionEpoch, "partition %d of %s: epochs went back from %+v to %+v", d.Partition, b.topic, r.last, d)
		if leader, seen := r.leaders[d.LeaderEpoch]; seen && leader != d.Leader {
			b.fail("partition %d of %s: brokers %d and %d lead in epoch %d", d.Partition, b.topic, leader, d.Leader, d.LeaderEpoch)
		}
		sealed := r.last.Error == ops.None && r.last.ClassicToDisklessStartOffset >= 0
		b.expect(!sealed || d.ClassicToDisklessStartOffset == r.last.ClassicToDisklessStartOffset, "partition %d of %s: the seal moved from %+v to %+v", d.Partition, b.topic, r.last, d)
		r.last, r.leaders[d.LeaderEpoch] = d, d.Leader
	}
}

// state is that of the partition that is furthest behind.
func (b *brokers) state() ops.PartitionState {
	for _, s := range []ops.PartitionState{ops.StateClassic, ops.StateSwitchPending, ops.StatePrefixWaitingForUpload} {
		for _, r := range b.known {
			if r.last.State == s {
				return s
			}
		}
	}
	return ops.StatePrefixInRemoteStorage
}

// growISRs brings brokers back that were fenced: a switch needs all of them.
func (b *brokers) growISRs() {
	for p, r := range b.known {
		d := r.last
		if d.Leader < 0 || len(d.ISR) == brokerCount {
			continue
		}
		request := &ops.AlterPartitionRequest{TopicID: b.topic, Partition: int32(p), BrokerID: d.Leader, LeaderEpoch: d.LeaderEpoch, PartitionEpoch: d.PartitionEpoch}
		for i, epoch := range b.epochs {
			request.NewISR = append(request.NewISR, ops.ISRMember{BrokerID: firstBroker + int32(i), BrokerEpoch: epoch})
		}
		ask(b.owner, "alter-partition", api.ControlPlane.AlterPartition, request, "")
	}
}

// sealAt is where every classic log ends.
const sealAt = 1000

// seal seals each partition, as its leader knows it. A leader that has changed since is
// refused.
func (b *brokers) seal() {
	request := &ops.CommitSealRequest{}
	for p, r := range b.known {
		if d := r.last; d.State == ops.StateSwitchPending && d.Leader >= 0 {
			request.Requests = append(request.Requests, ops.CommitSeal{
				TopicID: b.topic, Partition: int32(p), BrokerID: d.Leader, LeaderEpoch: d.LeaderEpoch, DisklessStartOffset: sealAt + int64(p),
			})
		}
	}
	answer := ask(b.owner, "commit-seal", api.ControlPlane.CommitSeal, request, "")
	if answer == nil {
		return
	}
	b.read()
	for _, s := range answer.Responses {
		seal := b.known[s.Partition].last.ClassicToDisklessStartOffset
		b.expect(s.Error != ops.None || seal == sealAt+int64(s.Partition), "partition %d of %s was sealed at %d, and is at %d", s.Partition, b.topic, sealAt+s.Partition, seal)
	}
}

// upload says that the prefixes are in remote storage.
func (b *brokers) upload() {
	request := &ops.CommitPrefixInRemoteStorageRequest{}
	for p, r := range b.known {
		if d := r.last; d.State == ops.StatePrefixWaitingForUpload && d.Leader >= 0 {
			request.Requests = append(request.Requests, ops.CommitPrefix{
				TopicID: b.topic, Partition: int32(p), BrokerID: d.Leader, LeaderEpoch: d.LeaderEpoch, HighestRemoteOffset: sealAt + int64(p) - 1,
			})
		}
	}
	answer := ask(b.owner, "commit-prefix-in-remote-storage", api.ControlPlane.CommitPrefixInRemoteStorage, request, "")
	if answer == nil {
		return
	}
	b.read()
	for _, s := range answer.Responses {
		b.expect(s.Error != ops.None || b.known[s.Partition].last.ClassicPrefixInRemoteStorage, "the prefix of partition %d of %s was in remote storage, and is not", s.Partition, b.topic)
	}
}
