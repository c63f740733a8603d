package switchover_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
	switchover "github.com/cpnode/cpnode/switch"
	"github.com/cpnode/cpnode/switch/remotestore"
	"github.com/cpnode/cpnode/switch/segmentlog"
)

// me is the broker whose gate is tested; the partition's other replicas are 2 and 3.
const me int32 = 1

var ref = ops.LogRef{TopicID: store.TopicID{7}, Partition: 0}

// broker is a gate with what is around it.
type broker struct {
	*switchover.Gate
	t        *testing.T
	clock    *clockwork.FakeClock
	remote   *tier
	fetchers *tasks
	failures *failures
	plane    *plane
	log      *segmentlog.Log

	producers *producers
}

// newBroker has an empty log of the partition, and the gate's goroutines do not run.
func newBroker(t *testing.T) *broker {
	b := &broker{
		t: t, clock: clockwork.NewFakeClock(), remote: newTier(t), fetchers: &tasks{}, failures: &failures{}, plane: &plane{},
		producers: &producers{unreadable: map[ops.LogRef]bool{}, remembered: 1},
	}
	b.Gate = switchover.New(switchover.DefaultConfig(me), switchover.Deps{
		Remote: b.remote, Diskless: diskless{}, Fetchers: b.fetchers, Failures: b.failures,
		Producers: b.producers, Brokers: b.plane, ControlPlane: b.plane, Clock: b.clock,
	})
	t.Cleanup(b.Close)
	b.log = openLog(t)
	require.NoError(t, b.Open(ref, b.log))
	return b
}

func openLog(t *testing.T) *segmentlog.Log {
	return openLogWith(t, segmentlog.DefaultConfig())
}

func openLogWith(t *testing.T, config segmentlog.Config) *segmentlog.Log {
	l, err := segmentlog.Open(filepath.Join(t.TempDir(), "log"), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// filled is a broker whose log has the batches [0, n), 10 in a segment.
func filled(t *testing.T, n int64) *broker {
	b := newBroker(t)
	fill(t, b.log, n)
	return b
}

// fill appends batches of one record, in leader epoch 3, up to the offset end.
func fill(t *testing.T, l *segmentlog.Log, end int64) {
	for o := l.EndOffset(); o < end; o++ {
		require.NoError(t, l.AppendBatches([]switchover.Batch{batch(o, 3, "local")}))
		if (o+1)%10 == 0 {
			require.NoError(t, l.Roll())
		}
	}
	require.NoError(t, l.SetHighWatermark(end))
}

func batch(offset int64, epoch int32, from string) switchover.Batch {
	return switchover.Batch{BaseOffset: offset, Records: 1, LeaderEpoch: epoch, Kind: switchover.Classic, Payload: fmt.Appendf(nil, "%s %d", from, offset)}
}

// classic is the registration before a switch: broker 1 leads in epoch 4.
func classic() switchover.Registration {
	return switchover.Registration{
		WatchedPartition: ops.WatchedPartition{
			TopicID: ref.TopicID, Partition: ref.Partition, State: ops.StateClassic,
			Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: me, LeaderEpoch: 4, PartitionEpoch: 10,
			ClassicToDisklessStartOffset: store.NoSwitch, DisklessLeaderEpoch: -1,
		},
		TopicConfig: map[string]string{"remote.storage.enable": "true"},
	}
}

func pending() switchover.Registration {
	r := classic()
	r.State, r.ClassicToDisklessStartOffset = ops.StateSwitchPending, store.SwitchPending
	r.LeaderEpoch, r.PartitionEpoch = 5, 11
	return r
}

// waiting is phase 1: sealed, and the prefix is only on local disks.
func waiting(seal int64) switchover.Registration {
	r := pending()
	r.State, r.ClassicToDisklessStartOffset, r.DisklessLeaderEpoch, r.PartitionEpoch = ops.StatePrefixWaitingForUpload, seal, 5, 12
	return r
}

// flagged is phase 2.
func flagged(seal int64) switchover.Registration {
	r := waiting(seal)
	r.State, r.ClassicPrefixInRemoteStorage = ops.StatePrefixInRemoteStorage, true
	r.LeaderEpoch, r.PartitionEpoch = 6, 13
	return r
}

// ledBy is the same with another leader; following brokers have this one in their ISR.
func ledBy(r switchover.Registration, leader int32) switchover.Registration {
	r.Leader = leader
	return r
}

func withISR(r switchover.Registration, isr ...int32) switchover.Registration {
	r.ISR = isr
	return r
}

// consume reads as a consumer does, without waiting.
func (b *broker) consume(offset int64) (switchover.ReadResult, error) {
	return b.Read(context.Background(), switchover.ReadRequest{Ref: ref, Offset: offset, MaxBytes: 1, Replica: switchover.Consumer})
}

// fetch reads as a follower does.
func (b *broker) fetch(replica int32, offset int64, epoch int32) (switchover.ReadResult, error) {
	return b.Read(context.Background(), switchover.ReadRequest{
		Ref: ref, Offset: offset, MaxBytes: 1 << 20, Replica: replica, BrokerEpoch: int64(100 + replica), LeaderEpoch: epoch,
	})
}

func (b *broker) status() switchover.Status {
	s, err := b.Status(ref)
	require.NoError(b.t, err)
	return s
}

// requireTier reads a batch as a consumer, which must come from that tier.
func (b *broker) requireTier(offset int64, tier switchover.Tier) {
	b.t.Helper()
	got, err := b.consume(offset)
	require.NoError(b.t, err)
	require.Equal(b.t, tier, got.Tier)
	require.NotEmpty(b.t, got.Batches)
	require.Equal(b.t, fmt.Sprintf("%s %d", tier, offset), string(got.Batches[0].Payload))
}

// tier is remote storage as one broker sees it. Its records say "remote", so that a copy is
// told from the original.
type tier struct {
	*remotestore.View
	t     *testing.T
	store *remotestore.Store
	kind  switchover.Kind // of its records
	mu    sync.Mutex
	logs  map[ops.LogRef]*segmentlog.Log // what was uploaded
}

func newTier(t *testing.T) *tier {
	store, err := remotestore.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return &tier{View: remotestore.NewView(store), t: t, store: store, kind: switchover.Classic, logs: map[ops.LogRef]*segmentlog.Log{}}
}

// list uploads one more segment of the partition, which ends with the offset highest, and
// lets the broker know.
func (r *tier) list(highest int64) { r.listOf(ref, highest) }

func (r *tier) listOf(p ops.LogRef, highest int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.logs[p]
	if !ok {
		l = openLog(r.t)
		r.logs[p] = l
	}
	base := l.EndOffset()
	for o := base; o <= highest; o++ {
		next := batch(o, 3, "remote")
		next.Kind = r.kind
		require.NoError(r.t, l.AppendBatches([]switchover.Batch{next}))
	}
	require.NoError(r.t, l.SetHighWatermark(highest+1))
	require.NoError(r.t, l.Roll())
	segment, err := l.OpenSegment(base)
	require.NoError(r.t, err)
	defer segment.Close()
	require.NoError(r.t, r.store.Upload(context.Background(), p, segment))
	require.NoError(r.t, r.Refresh(context.Background(), p))
}

// diskless has one batch at every offset.
type diskless struct{}

func (diskless) Read(_ context.Context, _ ops.LogRef, offset int64, _ int) ([]switchover.Batch, int64, error) {
	return []switchover.Batch{batch(offset, 0, "diskless")}, offset + 1, nil
}

// tasks are fetchers that note what runs.
type tasks struct {
	mu            sync.Mutex
	classic       map[ops.LogRef]string
	consolidation map[ops.LogRef]string
	stopping      func() // runs while the classic fetcher is being stopped
}

func (f *tasks) StartClassic(p ops.LogRef, leader, epoch int32) {
	f.set(&f.classic, p, fmt.Sprintf("from %d in epoch %d", leader, epoch))
}

func (f *tasks) StopClassic(p ops.LogRef) {
	if f.stopping != nil {
		f.stopping()
	}
	f.set(&f.classic, p, "")
}

func (f *tasks) StartConsolidation(p ops.LogRef, rebuild bool) {
	f.set(&f.consolidation, p, map[bool]string{false: "runs", true: "rebuilds"}[rebuild])
}

func (f *tasks) StopConsolidation(p ops.LogRef) { f.set(&f.consolidation, p, "") }

func (f *tasks) set(m *map[ops.LogRef]string, p ops.LogRef, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *m == nil {
		*m = map[ops.LogRef]string{}
	}
	(*m)[p] = what
}

// running says what is fetched for the partition.
func (f *tasks) running() (classic, consolidation string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.classic[ref], f.consolidation[ref]
}

// failures are the log directories that failed.
type failures struct {
	mu     sync.Mutex
	errs   []error
	handle func() // what the broker does about it
}

func (f *failures) LogDirFailed(_ ops.LogRef, err error) {
	if f.handle != nil {
		f.handle()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *failures) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// producers are one of each partition.
type producers struct {
	unreadable map[ops.LogRef]bool
	remembered int // batches
}

func (p *producers) ActiveStates(ref ops.LogRef) ([]ops.ProducerState, error) {
	if p.unreadable[ref] {
		return nil, errors.New("the producers cannot be read")
	}
	return slices.Repeat([]ops.ProducerState{{ProducerID: 9, LastSequence: 4, AssignedOffset: 2}}, p.remembered), nil
}

// plane is a control plane that notes what it is asked, and answers as it is told to: the
// rules are those of package ops, and tested there.
type plane struct {
	mu     sync.Mutex
	seals  []ops.CommitSeal
	calls  int // in which the seals were asked for
	flags  []ops.CommitPrefix
	isrs   []*ops.AlterPartitionRequest
	answer ops.Code // "" is NONE
	err    error
	dead   []int32
	during func() // runs in a call, as what the call brings about may arrive before its answer
}

func (c *plane) code() ops.Code {
	if c.answer == "" {
		return ops.None
	}
	return c.answer
}

func (c *plane) CommitSeal(_ context.Context, r *ops.CommitSealRequest, _ ...api.Option) (*ops.CommitSealResponse, error) {
	if c.during != nil {
		c.during()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seals, c.calls = append(c.seals, r.Requests...), c.calls+1
	answer := &ops.CommitSealResponse{}
	for range r.Requests {
		answer.Responses = append(answer.Responses, ops.CommittedSeal{Error: c.code()})
	}
	return answer, c.err
}

func (c *plane) CommitPrefixInRemoteStorage(_ context.Context, r *ops.CommitPrefixInRemoteStorageRequest, _ ...api.Option) (*ops.CommitPrefixInRemoteStorageResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flags = append(c.flags, r.Requests...)
	answer := &ops.CommitPrefixInRemoteStorageResponse{}
	for range r.Requests {
		answer.Responses = append(answer.Responses, ops.CommittedPrefix{Error: c.code()})
	}
	return answer, c.err
}

func (c *plane) AlterPartition(_ context.Context, r *ops.AlterPartitionRequest, _ ...api.Option) (*ops.AlterPartitionResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isrs = append(c.isrs, r)
	return &ops.AlterPartitionResponse{Error: c.code()}, c.err
}

// Epoch of a broker is 100 more than its id.
func (c *plane) Epoch(broker int32) (int64, bool) {
	return int64(100 + broker), !slices.Contains(c.dead, broker)
}

// eventually polls for what other goroutines bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, time.Millisecond, what)
}
