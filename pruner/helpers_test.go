package pruner

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

// cluster is one real node whose clock the test moves, and everything that a worker
// is given.
type cluster struct {
	*api.Embedded
	t        testing.TB
	node     *raftnode.Node
	clock    *clockwork.FakeClock
	registry *prometheus.Registry
	deps     worker.Deps

	mu       sync.Mutex
	faults   map[string]error // by operation, instead of carrying it out
	calls    map[string]int
	poisoned ops.LogRef // fails each request that has it
	objects  int
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t, clock: clockwork.NewFakeClockAt(time.UnixMilli(1_800_000_000_000)), registry: prometheus.NewRegistry(),
		faults: map[string]error{}, calls: map[string]int{}, poisoned: ops.LogRef{Partition: -1}}
	config := raftnode.DefaultConfig()
	config.NodeID, config.DataDir, config.RaftAddr = "n1", filepath.Join(t.TempDir(), "n1"), "127.0.0.1:0"
	config.CommitTimeout, config.CheckpointInterval, config.Now = 10*time.Millisecond, 0, c.clock.Now
	// Small bounds, so that requests take several entries and lists several pages.
	config.Settings.PruneRows, config.Settings.RetentionRows, config.Settings.Limits.AnswerRows = 2, 2, 3
	var err error
	c.node, err = raftnode.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.node.Close()) })
	eventually(t, "the node is ready", func() bool { return c.node.Ready() == nil })
	c.Embedded = api.NewEmbedded(c.node, api.EmbeddedConfig{Limits: config.Settings.Limits})
	c.deps = worker.Deps{Clock: c.clock, Random: func() float64 { return 0.5 }, Registerer: c.registry}
	return c
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 20*time.Second, time.Millisecond, what)
}

// fail makes an operation fail until it is given nil.
func (c *cluster) fail(operation string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[operation] = err
}

func (c *cluster) called(operation string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[operation]
}

func (c *cluster) fault(operation string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[operation]++
	return c.faults[operation]
}

// poison is the fault of a request that has the poisoned partition.
func poison[T any](c *cluster, items []T, ref func(T) ops.LogRef) error {
	for _, item := range items {
		if ref(item) == c.poisoned {
			return ops.Errorf(ops.Internal, "partition %d cannot be read", c.poisoned.Partition)
		}
	}
	return nil
}

func (c *cluster) PruneDisklessLogs(ctx context.Context, r *ops.PruneDisklessLogsRequest, o ...api.Option) (*ops.PruneDisklessLogsResponse, error) {
	if err := c.fault("prune-diskless-logs"); err != nil {
		return nil, err
	}
	if err := poison(c, r.Requests, func(l ops.PruneLog) ops.LogRef { return ops.LogRef{TopicID: l.TopicID, Partition: l.Partition} }); err != nil {
		return nil, err
	}
	return c.Embedded.PruneDisklessLogs(ctx, r, o...)
}

func (c *cluster) EnforceRetention(ctx context.Context, r *ops.EnforceRetentionRequest, o ...api.Option) (*ops.EnforceRetentionResponse, error) {
	if err := c.fault("enforce-retention"); err != nil {
		return nil, err
	}
	if err := poison(c, r.Requests, func(l ops.EnforceRetention) ops.LogRef {
		return ops.LogRef{TopicID: l.TopicID, Partition: l.Partition}
	}); err != nil {
		return nil, err
	}
	return c.Embedded.EnforceRetention(ctx, r, o...)
}

func (c *cluster) ListTopics(ctx context.Context, r *ops.ListTopicsRequest, o ...api.Option) (*ops.ListTopicsResponse, error) {
	if err := c.fault("list-topics"); err != nil {
		return nil, err
	}
	return c.Embedded.ListTopics(ctx, r, o...)
}

func (c *cluster) DescribeTopic(ctx context.Context, r *ops.DescribeTopicRequest, o ...api.Option) (*ops.DescribeTopicResponse, error) {
	if err := c.fault("describe-topic"); err != nil {
		return nil, err
	}
	return c.Embedded.DescribeTopic(ctx, r, o...)
}

func (c *cluster) ExpireProducers(ctx context.Context, r *ops.ExpireProducersRequest, o ...api.Option) (*ops.ExpireProducersResponse, error) {
	if err := c.fault("expire-producers"); err != nil {
		return nil, err
	}
	return c.Embedded.ExpireProducers(ctx, r, o...)
}

func (c *cluster) AdvanceCrossTierLogStart(ctx context.Context, r *ops.AdvanceCrossTierLogStartRequest, o ...api.Option) (*ops.AdvanceCrossTierLogStartResponse, error) {
	if err := c.fault("advance-cross-tier-log-start"); err != nil {
		return nil, err
	}
	return c.Embedded.AdvanceCrossTierLogStart(ctx, r, o...)
}

func topicID(n byte) store.TopicID { return store.TopicID{15: n} }

func ref(topic byte, partition int32) ops.LogRef {
	return ops.LogRef{TopicID: topicID(topic), Partition: partition}
}

// create makes a topic, or adds partitions to it or changes its config.
func (c *cluster) create(topic byte, partitions int32, config map[string]string) {
	c.t.Helper()
	answer, err := c.CreateTopics(c.t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{
		TopicID: topicID(topic), TopicName: fmt.Sprintf("t%d", topic), NumPartitions: partitions, Config: config}}})
	require.NoError(c.t, err)
	require.Equal(c.t, ops.None, answer.Topics[0].Error)
}

// commit appends batches of ten records and 100 bytes to a partition.
func (c *cluster) commit(topic byte, partition int32, batches int) {
	c.t.Helper()
	for range batches {
		c.commitBatch(ops.CommitBatch{TopicID: topicID(topic), Partition: partition, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1})
	}
}

func (c *cluster) commitBatch(b ops.CommitBatch) {
	c.t.Helper()
	c.objects++
	b.Magic, b.ByteSize, b.LastOffset, b.BatchMaxTimestamp = 2, 100, 9, c.clock.Now().UnixMilli()
	answer, err := c.CommitFile(c.t.Context(), &ops.CommitFileRequest{ObjectKey: fmt.Sprintf("wal/%d", c.objects), Format: 1, FileSize: 100, Batches: []ops.CommitBatch{b}})
	require.NoError(c.t, err)
	require.Equal(c.t, ops.None, answer.Batches[0].Error)
}

func (c *cluster) logStart(topic byte, partition int32) int64 {
	c.t.Helper()
	answer, err := c.GetLogInfo(c.t.Context(), &ops.GetLogInfoRequest{Requests: []ops.LogRef{ref(topic, partition)}})
	require.NoError(c.t, err)
	return answer.Responses[0].LogStartOffset
}

func (c *cluster) lastIndex() uint64 { return c.node.Status().LastIndex }

// value is that of a counter or gauge, summed over its labels.
func (c *cluster) value(name string) (sum float64) {
	c.t.Helper()
	families, err := c.registry.Gather()
	require.NoError(c.t, err)
	found := false
	for _, f := range families {
		if f.GetName() == name {
			found = true
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	require.True(c.t, found, name)
	return sum
}

// run starts a worker and is how to stop it.
func run(t testing.TB, worker interface{ Run(context.Context) }) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		worker.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// pass moves the clock once n workers wait for it.
func (c *cluster) pass(n int, d time.Duration) {
	c.t.Helper()
	c.waiting(n)
	c.clock.Advance(d)
}

// waiting returns when n workers have ended their cycles.
func (c *cluster) waiting(n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(c.t, c.clock.BlockUntilContext(ctx, n), "a cycle does not end")
}
