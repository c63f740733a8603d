package switchover

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
)

// Config is how one broker's gate behaves.
type Config struct {
	BrokerID int32
	// Interval is between two tries to delete a prefix.
	Interval time.Duration
	// RetryInitial is between two looks at what is to be committed, and the pause after the
	// first refused commit of a partition, which doubles up to RetryMax.
	RetryInitial, RetryMax time.Duration
	// CommitTimeout bounds one call of the control plane.
	CommitTimeout time.Duration
	// ReplicaLagMax is how long a follower may be behind the leader's end before it is
	// taken out of the ISR.
	ReplicaLagMax time.Duration
}

// DefaultConfig is what a broker runs with.
func DefaultConfig(brokerID int32) Config {
	return Config{
		BrokerID: brokerID, Interval: time.Second, RetryInitial: 100 * time.Millisecond, RetryMax: 10 * time.Second,
		CommitTimeout: 30 * time.Second, ReplicaLagMax: 30 * time.Second,
	}
}

// Validate names the first field that is wrong.
func (c *Config) Validate() error {
	switch {
	case c.BrokerID < 0:
		return fmt.Errorf("BrokerID: must not be negative")
	case c.Interval <= 0:
		return fmt.Errorf("Interval: must be positive")
	case c.RetryInitial <= 0:
		return fmt.Errorf("RetryInitial: must be positive")
	case c.RetryMax < c.RetryInitial:
		return fmt.Errorf("RetryMax: must be at least RetryInitial")
	case c.CommitTimeout <= 0:
		return fmt.Errorf("CommitTimeout: must be positive")
	case c.ReplicaLagMax <= 0:
		return fmt.Errorf("ReplicaLagMax: must be positive")
	}
	return nil
}

// Deps are the broker's parts that the gate works with. Clock, Logger and Registerer may be
// nil: the real clock, no lines, no metrics.
type Deps struct {
	Remote       RemoteLog
	Diskless     DisklessLog
	Fetchers     Fetchers
	Failures     LogDirFailureHandler
	Producers    Producers
	Brokers      Brokers
	ControlPlane ControlPlane
	Clock        clockwork.Clock
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
}

// Gate is one broker's. All methods may be called from any goroutine; those of one
// partition that change its role take turns.
type Gate struct {
	config Config
	deps   Deps
	clock  clockwork.Clock
	logger *slog.Logger

	mu         sync.RWMutex // guards the map, and nothing else is locked under it
	partitions map[ops.LogRef]*partition

	deletions *queue // of prefixes
	revisits  *queue // of roles
	kick      chan struct{}

	run   sync.WaitGroup
	ctx   context.Context
	end   context.CancelFunc
	begin sync.Once
	hooks hooks
}

// hooks let tests stop a goroutine at a named place; nil ones do nothing.
type hooks struct {
	reading   func() // the local log is about to be read, under the lock of the log
	parked    func() // a read waits for more, without any lock
	woken     func() // a parked read goes on, without any lock
	deleting  func() // a prefix is about to be deleted, before any lock
	promoting func() // a future log is caught up, before any lock
}

func at(hook func()) {
	if hook != nil {
		hook()
	}
}

// New makes a gate that does nothing by itself until Start. config must be valid.
func New(config Config, deps Deps) *Gate {
	if deps.Clock == nil {
		deps.Clock = clockwork.NewRealClock()
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{
		config: config, deps: deps, clock: deps.Clock, logger: deps.Logger,
		partitions: map[ops.LogRef]*partition{}, deletions: newQueue(), revisits: newQueue(), kick: make(chan struct{}, 1),
	}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.register(deps.Registerer)
	return g
}

// Start begins the goroutines of the gate: one deletes prefixes, one asks the control plane
// for what is due, one takes roles anew where a fetcher has let go. None waits for another.
func (g *Gate) Start() {
	g.begin.Do(func() {
		g.run.Go(g.deletePrefixes)
		g.run.Go(g.revisitRoles)
		g.run.Go(g.commitWhatIsDue)
	})
}

// Close ends parked reads and the goroutines of the gate, and waits for the latter. It
// closes no log. Closing again does nothing.
func (g *Gate) Close() {
	g.end()
	g.begin.Do(func() {})
	g.run.Wait()
}

// Open gives the gate the log that this broker holds of a partition, before the first Apply
// of it. The log stays the broker's to close, after Remove or Close.
func (g *Gate) Open(ref ops.LogRef, log LocalLog) error {
	p := g.obtain(ref)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		return fmt.Errorf("switchover: partition %s-%d is open already", ref.TopicID, ref.Partition)
	}
	p.log = log
	return nil
}

// Remove forgets a partition, after its fetchers have stopped, and returns its logs, of which
// future is nil but during a directory move; both are the caller's to close.
func (g *Gate) Remove(ref ops.LogRef) (log, future LocalLog, err error) {
	p, err := g.find(ref)
	if err != nil {
		return nil, nil, err
	}
	p.role.Lock()
	defer p.role.Unlock()
	g.deps.Fetchers.StopClassic(ref)
	g.deps.Fetchers.StopConsolidation(ref)
	g.mu.Lock()
	delete(g.partitions, ref)
	g.mu.Unlock()
	log, future = p.remove()
	p.changed.announce()
	return log, future, nil
}

// Status is what an operator wants to know of one partition on this broker.
type Status struct {
	State  ops.PartitionState
	Leader bool // this broker leads
	// Offline says why the partition is not served here, "" if it is.
	Offline string
	// Offsets of the local log; all 0 when the broker holds none.
	LogStart, LocalLogStart, HighWatermark, End int64
	// DeletionQueued: local segments of the prefix wait to be deleted.
	DeletionQueued bool
}

// Status describes a partition. ErrUnknownPartition.
func (g *Gate) Status(ref ops.LogRef) (Status, error) {
	p, err := g.find(ref)
	if err != nil {
		return Status{}, err
	}
	s := p.status(g.config.BrokerID)
	s.DeletionQueued = g.deletions.holds(ref)
	return s, nil
}

func (g *Gate) find(ref ops.LogRef) (*partition, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if p, ok := g.partitions[ref]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%w: %s-%d", ErrUnknownPartition, ref.TopicID, ref.Partition)
}

func (g *Gate) obtain(ref ops.LogRef) *partition {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.partitions[ref]
	if !ok {
		p = newPartition(ref)
		g.partitions[ref] = p
	}
	return p
}

// all are the partitions of this moment.
func (g *Gate) all() []*partition {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all := make([]*partition, 0, len(g.partitions))
	for _, p := range g.partitions {
		all = append(all, p)
	}
	return all
}

// hurry has what is due committed soon, without waiting for the interval.
func (g *Gate) hurry() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}
