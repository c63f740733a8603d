package purger

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/purger/objectstore"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
	"github.com/cpnode/cpnode/worker"
)

// world is a single real node, an object store and workers' surroundings, all on one
// clock that the test moves.
type world struct {
	*api.Embedded
	t        *testing.T
	clock    *clockwork.FakeClock
	node     *raftnode.Node
	registry *prometheus.Registry
	log      lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// Files have times of the machine, so the clock starts there.
	w := &world{t: t, clock: clockwork.NewFakeClockAt(time.Now()), registry: prometheus.NewRegistry()}
	c := raftnode.DefaultConfig()
	c.NodeID, c.DataDir, c.RaftAddr = "n1", filepath.Join(t.TempDir(), "n1"), "127.0.0.1:0"
	c.CommitTimeout, c.CheckpointInterval = 10*time.Millisecond, 0
	c.Now = w.clock.Now
	c.Settings.PurgeRows = 10 // so that a purge is several entries
	var err error
	w.node, err = raftnode.Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.node.Close()) })
	w.eventually(func() bool { return w.node.Ready() == nil }, "the node is ready")
	w.Embedded = api.NewEmbedded(w.node, api.EmbeddedConfig{})
	return w
}

func (w *world) deps() worker.Deps {
	return worker.Deps{Clock: w.clock, Random: func() float64 { return 0 }, Registerer: w.registry,
		Logger: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

func (w *world) eventually(cond func() bool, what string, args ...any) {
	w.t.Helper()
	require.Eventually(w.t, cond, 20*time.Second, time.Millisecond, append([]any{what}, args...)...)
}

// read is a StateReader.
func (w *world) read(ctx context.Context, fn func(*store.ReadTx) error) error {
	_, err := w.node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, fn)
	return err
}

func topicID(n byte) store.TopicID { return store.TopicID{15: n} }

// create makes topic n with one partition.
func (w *world) create(n byte) {
	w.t.Helper()
	answer, err := w.CreateTopics(w.t.Context(), &ops.CreateTopicsRequest{Topics: []ops.CreateTopic{{TopicID: topicID(n), TopicName: fmt.Sprintf("t%d", n), NumPartitions: 1}}})
	require.NoError(w.t, err)
	require.Equal(w.t, ops.None, answer.Topics[0].Error)
}

// commit is a file of one batch in each of the topics; the object has its key for
// content.
func (w *world) commit(objects objectstore.Store, key string, topics ...byte) {
	w.t.Helper()
	if objects != nil {
		require.NoError(w.t, objects.Put(w.t.Context(), key, strings.NewReader(key), int64(len(key))))
	}
	r := &ops.CommitFileRequest{ObjectKey: key, Format: 1, FileSize: int64(len(key))}
	for _, n := range topics {
		r.Batches = append(r.Batches, ops.CommitBatch{TopicID: topicID(n), Magic: 2, ByteSize: 1,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastSequence: -1})
	}
	answer, err := w.CommitFile(w.t.Context(), r)
	require.NoError(w.t, err)
	for _, b := range answer.Batches {
		require.Equal(w.t, ops.None, b.Error)
	}
}

// delete soft-deletes a topic.
func (w *world) delete(n byte) {
	w.t.Helper()
	_, err := w.DeleteTopics(w.t.Context(), &ops.DeleteTopicsRequest{TopicIDs: []store.TopicID{topicID(n)}})
	require.NoError(w.t, err)
}

// marked commits and marks n files, each with an object.
func (w *world) marked(objects objectstore.Store, n int) []string {
	w.t.Helper()
	w.create(1)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("wal/%d/%03d", i%3, i)
		w.commit(objects, keys[i], 1)
		w.clock.Advance(time.Millisecond) // the order of marks
	}
	w.delete(1)
	_, err := w.PurgeDeletedLogs(w.t.Context(), &ops.PurgeDeletedLogsRequest{})
	require.NoError(w.t, err)
	return keys
}

// files are the keys that the control plane knows.
func (w *world) files() map[string]bool {
	w.t.Helper()
	answer, err := w.ListFiles(w.t.Context(), &ops.ListFilesRequest{Limit: 10_000})
	require.NoError(w.t, err)
	known := map[string]bool{}
	for _, f := range answer.Files {
		known[f.ObjectKey] = true
	}
	return known
}

// keysOf are the keys of all objects.
func keysOf(t *testing.T, s objectstore.Store) []string {
	t.Helper()
	keys := []string{}
	require.NoError(t, s.List(context.WithoutCancel(t.Context()), "", "", func(o objectstore.Object) bool {
		keys = append(keys, o.Key)
		return true
	}))
	return keys
}

func openDirectory(t *testing.T) *objectstore.Directory {
	t.Helper()
	d, err := objectstore.OpenDirectory(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// finished is how many cycles of a worker have ended.
func (w *world) finished(prefix string) float64 {
	w.t.Helper()
	return w.metric(prefix+"_cycle_duration_seconds") + w.metric(prefix+"_errors_total") + w.metric(prefix+"_unavailable_total")
}

// metric is the value of a metric, by its name without "cpnode_"; of a histogram, how
// often it was observed.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == "cpnode_"+name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0
}

// run starts a worker, which ends with the test or with the returned function.
func (w *world) run(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { run(ctx); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

// waits lets a worker run until it waits for so long, and not a moment less.
func (w *world) waits(cycles func() float64, pause time.Duration) {
	w.t.Helper()
	before := cycles()
	require.NoError(w.t, w.clock.BlockUntilContext(w.t.Context(), 1))
	w.clock.Advance(pause - time.Millisecond)
	require.Equal(w.t, before, cycles(), "begins again within %s", pause)
	w.clock.Advance(time.Millisecond)
	w.eventually(func() bool { return cycles() > before }, "begins again after %s", pause)
	require.NoError(w.t, w.clock.BlockUntilContext(w.t.Context(), 1))
}

// TestMetricsLint holds names and help texts to Prometheus' rules.
func TestMetricsLint(t *testing.T) {
	registry := prometheus.NewRegistry()
	deps := worker.Deps{Registerer: registry}
	NewTopicPurger(DefaultTopicPurgerConfig(), nil, nil, deps)
	NewFileCleaner(DefaultFileCleanerConfig(), nil, nil, deps)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 9+3+9+4)
	for _, f := range families {
		require.Len(t, f.GetMetric(), 1, f.GetName())
		require.Empty(t, f.GetMetric()[0].GetLabel(), f.GetName())
	}
}
