package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/jepsen/history"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

const (
	brokers        = 3
	firstBroker    = 2000 // its client id
	switchedLogs   = 2    // of each topic
	brokerPause    = 100 * time.Millisecond
	brokerDiesOf   = 0.01 // chance at each look
	cleanChance    = 0.7  // that a broker which comes back has kept its disks
	flagChance     = 0.5  // a flag that is due is asked for at this look
	earlyChance    = 0.5  // a flag is asked for too early
	nextTopicAfter = 0.3  // chance at each look of the operator, once a topic is switched
	giveUpTopic    = 0.01 // the same before: its replicas may all be gone
)

// Config of a topic that can be switched over.
var switchable = map[string]string{"remote.storage.enable": "true"}

// ensemble is brokers and an operator, who share topics that become diskless one after
// the other. Requests are sent once: what is left undone is seen at the next look.
type ensemble struct {
	load     *Workload
	operator client
	brokers  [brokers]*broker

	mu     sync.Mutex
	topics []store.TopicID
}

// broker is one broker, as far as the control plane sees it.
type broker struct {
	client
	ensemble    *ensemble
	broker      int32 // its id
	incarnation int

	mu    sync.Mutex
	epoch int64 // -1 while it is not registered
	lives bool  // its last heartbeat was answered, and it is not fenced
}

func (w *Workload) startBrokers(ctx context.Context) {
	w.ensemble = &ensemble{load: w, operator: w.client(firstBroker)}
	for i := range w.ensemble.brokers {
		b := &broker{client: w.client(firstBroker + 1 + i), ensemble: w.ensemble, broker: int32(i), epoch: -1}
		w.ensemble.brokers[i] = b
		w.clients.Go(func() { b.run(ctx) })
	}
	w.clients.Go(func() { w.ensemble.operate(ctx) })
}

// once sends a request to some node once.
func once[Q, A any](ctx context.Context, c *client, r *history.Record, m method[Q, A], q *Q) *A {
	ctx, end := c.begin(ctx, writeTimeout)
	defer end()
	r.Group = history.GroupSwitch
	return ask(ctx, c, c.anyNode(), r, m, q)
}

// operate makes topics, switches them over, and asks for elections, also for some that
// must be refused.
func (e *ensemble) operate(ctx context.Context) {
	c := &e.operator
	for c.wait(ctx, time.Duration(c.random.Int64N(int64(2*brokerPause)))) {
		switched := e.look(ctx, c)
		topic, ok := e.latest()
		switch {
		case !ok || switched && c.chance(nextTopicAfter) || c.chance(giveUpTopic):
			e.register(ctx)
		case c.chance(0.3):
			once(ctx, c, &history.Record{Op: "begin-switch"}, api.ControlPlane.BeginSwitch, &ops.BeginSwitchRequest{TopicID: topic})
		case c.chance(0.4):
			once(ctx, c, &history.Record{Op: "elect-leader"}, api.ControlPlane.ElectLeader,
				&ops.ElectLeaderRequest{TopicID: topic, Partition: c.random.Int32N(switchedLogs), Election: ops.ElectionUnclean})
		case c.chance(0.2):
			once(ctx, c, &history.Record{Op: "elect-leader"}, api.ControlPlane.ElectLeader,
				&ops.ElectLeaderRequest{TopicID: topic, Partition: c.random.Int32N(switchedLogs), Election: ops.ElectionPreferred})
		case c.chance(0.05):
			once(ctx, c, &history.Record{Op: "fence-broker"}, api.ControlPlane.FenceBroker, &ops.FenceBrokerRequest{BrokerID: c.random.Int32N(brokers)})
		}
	}
}

// look describes the latest topic, and says whether all of it is switched over.
func (e *ensemble) look(ctx context.Context, c *client) (switched bool) {
	answer := e.describe(ctx, c, c.chance(staleChance))
	if answer == nil {
		return false
	}
	for _, p := range answer.Responses {
		if p.State != ops.StatePrefixInRemoteStorage {
			return false
		}
	}
	return true
}

// describe reads the partitions of the latest topic, nil when there is none.
func (e *ensemble) describe(ctx context.Context, c *client, stale bool) *ops.DescribePartitionsResponse {
	topic, ok := e.latest()
	if !ok {
		return nil
	}
	return once(ctx, c, &history.Record{Op: "describe-partitions", Stale: stale}, api.ControlPlane.DescribePartitions, describing(topic))
}

func describing(topic store.TopicID) *ops.DescribePartitionsRequest {
	q := &ops.DescribePartitionsRequest{}
	for p := range int32(switchedLogs) {
		q.Requests = append(q.Requests, ops.LogRef{TopicID: topic, Partition: p})
	}
	return q
}

func (e *ensemble) latest() (topic store.TopicID, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.topics) == 0 {
		return topic, false
	}
	return e.topics[len(e.topics)-1], true
}

// register makes another topic, which begins classic, once all brokers live: a partition
// whose replicas are fenced has none in sync.
func (e *ensemble) register(ctx context.Context) {
	for _, b := range e.brokers {
		if _, lives := b.state(); !lives {
			return
		}
	}
	e.mu.Lock()
	n := len(e.topics) + 1
	topic := store.TopicID{0x05, 6: 0x40, 8: 0x80, 14: byte(n >> 8), 15: byte(n)}
	e.mu.Unlock()
	q := &ops.RegisterPartitionsRequest{TopicID: topic, TopicName: fmt.Sprintf("switched-%d", n), Config: switchable}
	for p := range int32(switchedLogs) {
		q.Partitions = append(q.Partitions, ops.RegisterPartition{Partition: p, Replicas: []int32{p % brokers, (p + 1) % brokers, (p + 2) % brokers}})
	}
	if answer := once(ctx, &e.operator, &history.Record{Op: "register-partitions"}, api.ControlPlane.RegisterPartitions, q); answer != nil && answer.Error == ops.None {
		e.mu.Lock()
		e.topics = append(e.topics, topic)
		e.mu.Unlock()
	}
}

// readAll records what a node holds at the end of all topics.
func (e *ensemble) readAll(ctx context.Context, node target, index uint64) error {
	c := e.load.client(firstBroker + 1 + brokers)
	for _, topic := range e.topics {
		r := &history.Record{Group: history.GroupSwitch, Op: "describe-partitions", Stale: true, MinIndex: index, Final: true}
		if ask(ctx, &c, node, r, api.ControlPlane.DescribePartitions, describing(topic)) == nil {
			return fmt.Errorf("node %s does not describe topic %s", node.ID, topic)
		}
	}
	return nil
}

// run lets the broker register, say that it lives, do what its partitions need, and now
// and then die.
func (b *broker) run(ctx context.Context) {
	for b.wait(ctx, time.Duration(b.random.Int64N(int64(2*brokerPause)))) {
		switch epoch, _ := b.state(); {
		case epoch < 0:
			b.register(ctx)
		case b.chance(brokerDiesOf):
			b.set(-1, false)
			b.wait(ctx, time.Duration(b.random.Int64N(int64(time.Second))))
		default:
			b.heartbeat(ctx, epoch)
			b.work(ctx)
		}
	}
}

// state is the epoch of the registration, -1 without one, and whether the broker may serve.
func (b *broker) state() (epoch int64, lives bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch, b.lives
}

func (b *broker) set(epoch int64, lives bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch, b.lives = epoch, lives
}

// register takes the broker's place. An operator fences what was there, who knows that
// it is gone.
func (b *broker) register(ctx context.Context) {
	once(ctx, &b.client, &history.Record{Op: "fence-broker"}, api.ControlPlane.FenceBroker, &ops.FenceBrokerRequest{BrokerID: b.broker})
	b.incarnation++
	answer := once(ctx, &b.client, &history.Record{Op: "register-broker"}, api.ControlPlane.RegisterBroker, &ops.RegisterBrokerRequest{
		BrokerID: b.broker, IncarnationID: fmt.Sprintf("%d-%d", b.broker, b.incarnation), Endpoints: []string{}, CleanShutdown: b.chance(cleanChance),
	})
	if answer != nil && answer.Error == ops.None {
		b.set(answer.BrokerEpoch, false)
	}
}

func (b *broker) heartbeat(ctx context.Context, epoch int64) {
	answer := once(ctx, &b.client, &history.Record{Op: "broker-heartbeat"}, api.ControlPlane.BrokerHeartbeat, &ops.BrokerHeartbeatRequest{BrokerID: b.broker, BrokerEpoch: epoch})
	switch {
	case answer == nil:
	case answer.Error == ops.StaleBrokerEpoch:
		b.set(-1, false)
	default:
		b.set(epoch, answer.Error == ops.None && !answer.Fenced)
	}
}

// work does what is due at the partitions that the broker leads.
func (b *broker) work(ctx context.Context) {
	answer := b.ensemble.describe(ctx, &b.client, b.chance(staleChance))
	if answer == nil {
		return
	}
	for i := range answer.Responses {
		p := &answer.Responses[i]
		if p.Leader != b.broker {
			continue
		}
		switch p.State {
		case ops.StateSwitchPending:
			b.seal(ctx, p)
		case ops.StatePrefixWaitingForUpload:
			if b.chance(flagChance) {
				b.flag(ctx, p)
			}
		}
		if !p.State.Diskless() && len(p.ISR) < len(p.Replicas) {
			b.widen(ctx, p)
		}
	}
}

// seal ends the classic log somewhere.
func (b *broker) seal(ctx context.Context, p *ops.DescribedPartition) {
	once(ctx, &b.client, &history.Record{Op: "commit-seal"}, api.ControlPlane.CommitSeal, &ops.CommitSealRequest{Requests: []ops.CommitSeal{{
		TopicID: p.TopicID, Partition: p.Partition, BrokerID: b.broker, LeaderEpoch: p.LeaderEpoch, DisklessStartOffset: 2 + b.random.Int64N(1000), ProducerStates: []ops.ProducerState{},
	}}})
}

// flag says that the prefix is in remote storage, now and then but for its last record,
// which must be refused.
func (b *broker) flag(ctx context.Context, p *ops.DescribedPartition) {
	highest := p.ClassicToDisklessStartOffset - 1
	if b.chance(earlyChance) {
		highest--
	}
	once(ctx, &b.client, &history.Record{Op: "commit-prefix-in-remote-storage"}, api.ControlPlane.CommitPrefixInRemoteStorage, &ops.CommitPrefixInRemoteStorageRequest{Requests: []ops.CommitPrefix{{
		TopicID: p.TopicID, Partition: p.Partition, BrokerID: b.broker, LeaderEpoch: p.LeaderEpoch, HighestRemoteOffset: highest,
	}}})
}

// widen takes all replicas that live into the ISR.
func (b *broker) widen(ctx context.Context, p *ops.DescribedPartition) {
	q := &ops.AlterPartitionRequest{TopicID: p.TopicID, Partition: p.Partition, BrokerID: b.broker, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, other := range b.ensemble.brokers {
		if epoch, lives := other.state(); lives {
			q.NewISR = append(q.NewISR, ops.ISRMember{BrokerID: other.broker, BrokerEpoch: epoch})
		}
	}
	once(ctx, &b.client, &history.Record{Op: "alter-partition"}, api.ControlPlane.AlterPartition, q)
}
