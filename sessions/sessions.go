package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/store"
)

// Node is what sessions need of the node that they are kept on.
type Node interface {
	Propose(ctx context.Context, w ops.Write) (raftnode.Result, error)
	View(ctx context.Context, o raftnode.ReadOptions, fn func(*store.ReadTx) error) (raftnode.ReadInfo, error)
	// Events is a number that grows with every change of a broker that was answered.
	Events() uint64
}

// Config says how sessions are kept. Timeout is all that it needs.
type Config struct {
	// Timeout is the silence after which a broker is fenced.
	Timeout time.Duration
	// Clock is what silence is measured by; nil is the real one.
	Clock clockwork.Clock
	// Logger takes a line for each broker that is fenced; nil drops them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
}

// looksPerTimeout is how often in a timeout the sessions are looked at: one ends at most
// a tenth of the timeout late.
const looksPerTimeout = 10

// Sessions are those of all brokers. They may be used from any goroutine.
type Sessions struct {
	node    Node
	config  Config
	metrics *metrics

	mu      sync.Mutex
	brokers map[int32]session // of brokers that are not fenced; nil while the node does not lead
}

// session is what is known of one broker.
type session struct {
	epoch int64
	heard time.Time
	// events is the node's number at which the broker was seen unfenced under its
	// epoch: it still is while the number stays.
	events uint64
}

// New keeps sessions on node, while Run runs.
func New(node Node, config Config) *Sessions {
	if config.Clock == nil {
		config.Clock = clockwork.NewRealClock()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sessions{node: node, config: config}
	s.metrics = newMetrics(s, config.Registerer)
	return s
}

// Heartbeat answers a broker that says that it is alive. Index is that of the entry that
// unfenced it, if that was needed. Errors are those of the node's Propose.
func (s *Sessions) Heartbeat(ctx context.Context, r *ops.BrokerHeartbeatRequest) (answer *ops.BrokerHeartbeatResponse, index uint64, err error) {
	if s.hear(r) {
		s.metrics.memory.Inc()
		return &ops.BrokerHeartbeatResponse{Error: ops.None, SessionMs: s.config.Timeout.Milliseconds()}, 0, nil
	}
	s.metrics.state.Inc()
	seen := session{epoch: r.BrokerEpoch, events: s.node.Events()} // before it is asked: what changes meanwhile counts
	result, err := s.node.Propose(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	answer = result.Answer.(*ops.BrokerHeartbeatResponse)
	if answer.Error == ops.None {
		answer.SessionMs = s.config.Timeout.Milliseconds()
		s.remember(r.BrokerID, seen)
	}
	return answer, result.Index, nil
}

// hear takes a heartbeat in, and says whether nothing else is to be done.
func (s *Sessions) hear(r *ops.BrokerHeartbeatRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.brokers[r.BrokerID]
	if !ok || known.epoch != r.BrokerEpoch {
		return false
	}
	known.heard = s.config.Clock.Now()
	s.brokers[r.BrokerID] = known
	return known.events == s.node.Events()
}

func (s *Sessions) remember(id int32, seen session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.brokers != nil {
		seen.heard = s.config.Clock.Now()
		s.brokers[id] = seen
	}
}

// Run keeps sessions until ctx ends. The node must lead, and its state must hold all
// that was committed before.
func (s *Sessions) Run(ctx context.Context) {
	s.reset(map[int32]session{})
	defer s.reset(nil)
	ticker := s.config.Clock.NewTicker(max(s.config.Timeout/looksPerTimeout, time.Millisecond))
	defer ticker.Stop()
	for {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.config.Logger.Warn("sessions of brokers could not be looked at; trying again", "error", err)
		}
		select {
		case <-ticker.Chan():
		case <-ctx.Done():
			return
		}
	}
}

func (s *Sessions) reset(brokers map[int32]session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brokers = brokers
}

// look fences the brokers whose sessions have ended.
func (s *Sessions) look(ctx context.Context) error {
	var silent []ops.FenceSilentBroker
	_, err := s.node.View(ctx, raftnode.ReadOptions{Level: raftnode.Stale}, func(tx *store.ReadTx) (err error) {
		silent, err = s.silent(tx)
		return err
	})
	for i := range silent {
		if err == nil {
			err = s.fence(ctx, &silent[i])
		}
	}
	return err
}

// silent is the brokers whose sessions have ended. Those of brokers that are not fenced
// and have none begin.
func (s *Sessions) silent(tx *store.ReadTx) (ended []ops.FenceSilentBroker, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Clock.Now()
	err = tx.Brokers(func(id int32, b *store.Broker) bool {
		known, ok := s.brokers[id]
		switch {
		case b.Fenced:
			delete(s.brokers, id)
		case !ok || known.epoch != b.Epoch:
			s.brokers[id] = session{epoch: b.Epoch, heard: now}
		case now.Sub(known.heard) > s.config.Timeout:
			ended = append(ended, ops.FenceSilentBroker{BrokerID: id, BrokerEpoch: b.Epoch})
		}
		return true
	})
	return ended, err
}

// fence fences a broker that is silent, unless it was heard since.
func (s *Sessions) fence(ctx context.Context, f *ops.FenceSilentBroker) error {
	s.mu.Lock()
	silence := s.config.Clock.Since(s.brokers[f.BrokerID].heard)
	s.mu.Unlock()
	if silence <= s.config.Timeout {
		return nil
	}
	s.config.Logger.Info("a broker is silent and will be fenced", "broker", f.BrokerID, "epoch", f.BrokerEpoch, "silence", silence)
	if _, err := s.node.Propose(ctx, f); err != nil {
		return fmt.Errorf("fence broker %d, which is silent: %w", f.BrokerID, err)
	}
	s.metrics.expired.Inc()
	return nil
}
