package switchover_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/remotestore"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// cluster is a real control plane, remote storage, and three brokers that have the partition.
type cluster struct {
	*api.Embedded
	t       *testing.T
	remote  *remotestore.Store
	members []*member

	mu      sync.Mutex
	objects map[string]string // diskless storage: one record in each
}

// member is a broker: a gate, a log on disk, and real fetchers.
type member struct {
	*switchover.Gate
	cluster *cluster
	id      int32
	epoch   int64
	log     *segmentlog.Log
	view    *remotestore.View

	classic, consolidation task
	held                   atomic.Bool  // the classic fetcher brings nothing
	tampered               atomic.Int64 // batches of the prefix that were overwritten
}

func newCluster(t *testing.T, remote *remotestore.Store) *cluster {
	config := raftnode.DefaultConfig()
	config.NodeID, config.DataDir, config.RaftAddr = "n1", filepath.Join(t.TempDir(), "n1"), "127.0.0.1:0"
	config.CommitTimeout = 10 * time.Millisecond
	config.Settings.BrokerSessionMs = time.Hour.Milliseconds() // no broker is silent, however slow the machine
	node, err := raftnode.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	eventually(t, "the node is ready", func() bool { return node.Ready() == nil })
	c := &cluster{
		Embedded: api.NewEmbedded(node, api.EmbeddedConfig{Limits: config.Settings.Limits}), t: t, remote: remote, objects: map[string]string{},
	}
	for id := range int32(3) {
		c.members = append(c.members, c.join(id+1))
	}
	registered, err := c.RegisterPartitions(t.Context(), &ops.RegisterPartitionsRequest{
		TopicID: ref.TopicID, TopicName: "orders", Partitions: []ops.RegisterPartition{{Replicas: []int32{1, 2, 3}}},
		Config: map[string]string{"remote.storage.enable": "true"},
	})
	require.NoError(t, err)
	require.Equal(t, ops.None, registered.Error, registered.Message)
	return c
}

func (c *cluster) join(id int32) *member {
	m := &member{cluster: c, id: id, view: remotestore.NewView(c.remote), log: openLogWith(c.t, segmentlog.Config{SegmentBytes: 400})}
	answer, err := c.RegisterBroker(c.t.Context(), &ops.RegisterBrokerRequest{BrokerID: id, IncarnationID: fmt.Sprint("i", id), CleanShutdown: true})
	require.NoError(c.t, err)
	require.Equal(c.t, ops.None, answer.Error)
	m.epoch = answer.BrokerEpoch
	_, err = c.UnfenceBroker(c.t.Context(), &ops.UnfenceBrokerRequest{BrokerID: id})
	require.NoError(c.t, err)
	config := switchover.DefaultConfig(id)
	config.Interval, config.RetryInitial = 10*time.Millisecond, 10*time.Millisecond
	config.ReplicaLagMax = time.Hour // nor is any follower
	m.Gate = switchover.New(config, switchover.Deps{
		Remote: m.view, Diskless: c, Fetchers: m, Failures: &failures{}, Producers: &producers{remembered: 1}, Brokers: c, ControlPlane: c,
	})
	require.NoError(c.t, m.Open(ref, m.log))
	m.BeforeDeletion(m.tamper)
	m.Start()
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { m.watch(ctx) })
	c.t.Cleanup(func() {
		stop()
		watching.Wait()
		m.Close()
		_, _, _ = m.Remove(ref)
	})
	return m
}

// Epoch is of brokers that are never fenced here.
func (c *cluster) Epoch(broker int32) (int64, bool) { return c.members[broker-1].epoch, true }

// watch tells the gate what the control plane says, until ctx ends.
func (m *member) watch(ctx context.Context) {
	configs := map[store.TopicID]map[string]string{}
	for event, err := range m.cluster.Watch(ctx, 0) {
		if err != nil {
			return
		}
		for _, topic := range event.Topics {
			configs[topic.TopicID] = topic.Config
		}
		for _, p := range event.Partitions {
			m.Apply(switchover.Registration{WatchedPartition: p, TopicConfig: configs[p.TopicID]})
		}
	}
}

// reaches waits until all brokers know that the partition is in a state, and refreshes what
// they know of remote storage meanwhile.
func (c *cluster) reaches(state ops.PartitionState) ops.DescribedPartition {
	eventually(c.t, string(state), func() bool {
		known := 0
		for _, m := range c.members {
			require.NoError(c.t, m.view.Refresh(c.t.Context(), ref))
			if s, err := m.Status(ref); err == nil && s.State == state {
				known++
			}
		}
		return known == len(c.members)
	})
	answer, err := c.DescribePartitions(c.t.Context(), &ops.DescribePartitionsRequest{Requests: []ops.LogRef{ref}})
	require.NoError(c.t, err)
	return answer.Responses[0]
}

// upload copies the leader's closed segments.
func (c *cluster) upload() {
	leader := c.members[0]
	require.NoError(c.t, leader.WithLog(ref, func(l switchover.LocalLog) error {
		segments := l.Segments()
		for _, s := range segments[:len(segments)-1] {
			if s.End > l.HighWatermark() {
				break
			}
			file, err := l.(*segmentlog.Log).OpenSegment(s.Base)
			require.NoError(c.t, err)
			require.NoError(c.t, c.remote.Upload(c.t.Context(), ref, file))
			_ = file.Close()
		}
		return nil
	}))
}

// produceDiskless commits one record in an object of its own.
func (c *cluster) produceDiskless(record string) int64 {
	key := "object-" + strings.ReplaceAll(record, " ", "-")
	c.mu.Lock()
	c.objects[key] = record
	c.mu.Unlock()
	size := int64(len(record))
	answer, err := c.CommitFile(c.t.Context(), &ops.CommitFileRequest{
		ObjectKey: key, Format: 1, UploaderBrokerID: 1, FileSize: size, Batches: []ops.CommitBatch{{
			TopicID: ref.TopicID, Magic: 2, ByteSize: size, BatchMaxTimestamp: 1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1,
		}},
	})
	require.NoError(c.t, err)
	require.Equal(c.t, ops.None, answer.Batches[0].Error)
	return answer.Batches[0].AssignedBaseOffset
}

// Read is diskless storage.
func (c *cluster) Read(ctx context.Context, p ops.LogRef, offset int64, maxBytes int) ([]switchover.Batch, int64, error) {
	answer, err := c.FindBatches(ctx, &ops.FindBatchesRequest{
		Requests:      []ops.FindBatches{{TopicID: p.TopicID, Partition: p.Partition, StartingOffset: offset, MaxPartitionFetchBytes: int32(maxBytes)}},
		FetchMaxBytes: int32(maxBytes),
	})
	if err != nil {
		return nil, 0, err
	}
	found := answer.Responses[0]
	if found.Error != ops.None {
		return nil, 0, fmt.Errorf("find-batches at %d: %s", offset, found.Error)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var batches []switchover.Batch
	for _, b := range found.Batches {
		batches = append(batches, switchover.Batch{
			BaseOffset: b.BaseOffset, Records: int32(b.LastOffset - b.BaseOffset + 1), Kind: switchover.Consolidated, Payload: []byte(c.objects[b.ObjectKey]),
		})
	}
	return batches, found.HighWatermark, nil
}

// tamper overwrites the payloads of every local segment of the prefix, as soon as this
// broker knows of the flag, and before anything is deleted. Then it reads all of it.
func (m *member) tamper() {
	s, err := m.Status(ref)
	if err != nil || s.State != ops.StatePrefixInRemoteStorage {
		return
	}
	files, _ := filepath.Glob(filepath.Join(m.log.Dir(), "*.log"))
	for _, name := range files {
		if base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".log"), 10, 64); err == nil && base < 60 {
			m.tampered.Add(overwrite(name))
		}
	}
	for offset := range int64(60) {
		got, err := m.Gate.Read(context.Background(), switchover.ReadRequest{Ref: ref, Offset: offset, MaxBytes: 1, Replica: switchover.Consumer})
		if err == nil && (len(got.Batches) != 1 || string(got.Batches[0].Payload) != fmt.Sprint("classic ", offset)) {
			m.cluster.t.Errorf("broker %d at offset %d, after the flag: %v", m.id, offset, got)
		}
	}
}

// task is a goroutine that can be stopped and waited for.
type task struct {
	mu   sync.Mutex
	what string
	stop context.CancelFunc
	done chan struct{}
}

// be replaces what runs, unless it is that already; "" runs nothing.
func (k *task) be(what string, loop func(context.Context) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.what == what {
		return
	}
	if k.stop != nil {
		k.stop()
		<-k.done
	}
	k.what, k.stop = what, nil
	if what == "" {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	k.stop, k.done = stop, done
	go func() {
		defer close(done)
		for ctx.Err() == nil && loop(ctx) == nil {
		}
	}()
}

func (m *member) StartClassic(p ops.LogRef, leader, epoch int32) {
	m.classic.be(fmt.Sprint(leader, epoch), func(ctx context.Context) error { return m.fetch(ctx, p, leader, epoch) })
}

func (m *member) StopClassic(ops.LogRef) { m.classic.be("", nil) }

func (m *member) StartConsolidation(p ops.LogRef, _ bool) {
	m.consolidation.be("runs", func(ctx context.Context) error { return m.consolidate(ctx, p) })
}

func (m *member) StopConsolidation(ops.LogRef) { m.consolidation.be("", nil) }

// errDone ends a task from within.
var errDone = fmt.Errorf("done")

// fetch is one round of the classic fetcher. An error of either side is met again, or the
// role changes.
func (m *member) fetch(ctx context.Context, p ops.LogRef, leader, epoch int32) error {
	if m.LeavesClassic(p) {
		m.Evicted(p)
		return errDone
	}
	if m.held.Load() {
		return pause(ctx)
	}
	got, err := m.cluster.members[leader-1].Gate.Read(ctx, switchover.ReadRequest{
		Ref: p, Offset: m.log.EndOffset(), MaxBytes: 100, MinBytes: 1, MaxWait: 10 * time.Millisecond,
		Replica: m.id, BrokerEpoch: m.epoch, LeaderEpoch: epoch,
	})
	if err == nil {
		err = m.AppendFetched(p, epoch, got.Batches, got.HighWatermark)
	}
	if err != nil {
		return pause(ctx)
	}
	return nil
}

func (m *member) consolidate(ctx context.Context, p ops.LogRef) error {
	batches, _, err := m.cluster.Read(ctx, p, m.log.EndOffset(), 100)
	if err != nil || len(batches) == 0 {
		return pause(ctx)
	}
	return m.AppendConsolidated(p, batches)
}

// pause keeps a task from spinning.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

// consumeAll reads from offset 0 to the end, as a consumer of that broker.
func (m *member) consumeAll(t *testing.T, end int64) (records []string, tiers []switchover.Tier) {
	for offset := int64(0); offset < end; {
		got, err := m.Gate.Read(t.Context(), switchover.ReadRequest{Ref: ref, Offset: offset, MaxBytes: 64, Replica: switchover.Consumer})
		require.NoError(t, err)
		require.NotEmpty(t, got.Batches, "broker %d at offset %d", m.id, offset)
		for _, b := range got.Batches {
			require.Equal(t, offset, b.BaseOffset)
			records = append(records, string(b.Payload))
			offset = b.NextOffset()
		}
		if !slices.Contains(tiers, got.Tier) {
			tiers = append(tiers, got.Tier)
		}
	}
	return records, tiers
}
