package api

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cpnode/cpnode/api/wire"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
	"github.com/cpnode/cpnode/sessions"
	"github.com/cpnode/cpnode/store"
)

// Node is what the api needs of a node.
type Node interface {
	Propose(ctx context.Context, w ops.Write) (raftnode.Result, error)
	View(ctx context.Context, o raftnode.ReadOptions, fn func(*store.ReadTx) error) (raftnode.ReadInfo, error)
	Forward(ctx context.Context, payload []byte) ([]byte, error)
	Events() uint64
	AwaitEvents(ctx context.Context, seq uint64) error
	HandleForwarded(handler func(ctx context.Context, payload []byte) []byte)
	WhileLeading(fn func(ctx context.Context))
	LeaderID() string
	Settings() ops.Settings
	FeatureLevel() uint64
	Backup() (*raftnode.Backup, error)
	Cluster(ctx context.Context) (raftnode.ClusterStatus, error)
	Join(ctx context.Context, p raftnode.Peer) (instance string, err error)
	Remove(ctx context.Context, id string, force bool) error
	Transfer(ctx context.Context, id string) error
	Upgrade(ctx context.Context, level uint64) (from, to uint64, err error)
	Status() raftnode.Status
	Ready() error
}

var _ Node = (*raftnode.Node)(nil)

// EmbeddedConfig says how to give access to a node. The zero value will do, but
// for Limits that the node has changed.
type EmbeddedConfig struct {
	// Limits bound requests and answers; zero is ops.DefaultLimits. They must be
	// those of the node's Settings.
	Limits ops.Limits
	// Logger takes faults of the node; nil drops them.
	Logger *slog.Logger
	// Registerer takes the metrics; nil keeps none.
	Registerer prometheus.Registerer
	// Clock is what the sessions of brokers are measured by; nil is the real one.
	Clock clockwork.Clock
}

// Embedded is the control plane in the process of one of its nodes. It may be used
// from any goroutine. What only the leader may answer is forwarded to it, so any
// node will do.
type Embedded struct {
	Operations
	node       Node
	id         string // of the node
	limits     ops.Limits
	logger     *slog.Logger
	metrics    *metrics
	operations map[string]*operation
	backups    requestMetrics
	watches    *watchMetrics
	sessions   *sessions.Sessions
	workers    atomic.Pointer[Workers]
}

// operation is a verb with what is counted of it.
type operation struct {
	*verb
	requestMetrics
}

var _ ControlPlane = (*Embedded)(nil)

// NewEmbedded gives access to node, makes it answer what the cluster's other nodes
// forward to it, and keep the sessions of brokers while it leads: each node of a cluster
// needs one, and has one.
func NewEmbedded(node Node, config EmbeddedConfig) *Embedded {
	if config.Limits == (ops.Limits{}) {
		config.Limits = ops.DefaultLimits()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Embedded{
		node: node, id: node.Status().NodeID, limits: config.Limits, logger: config.Logger,
		metrics: newMetrics(config.Registerer), operations: map[string]*operation{},
	}
	for name, v := range verbs {
		e.operations[name] = &operation{verb: v, requestMetrics: e.metrics.of(name)}
	}
	e.backups = e.metrics.of(backupName)
	e.watches = newWatchMetrics(e.metrics, config.Registerer)
	e.sessions = sessions.New(node, sessions.Config{Timeout: time.Duration(node.Settings().BrokerSessionMs) * time.Millisecond,
		Clock: config.Clock, Logger: config.Logger, Registerer: config.Registerer})
	node.WhileLeading(e.sessions.Run)
	e.Operations = Operations{e}
	node.HandleForwarded(e.answerForwarded)
	return e
}

// do carries out a call of this process.
func (e *Embedded) do(ctx context.Context, name string, req ops.Request, opts []Option) (any, error) {
	op, started := e.operations[name], time.Now()
	e.metrics.inFlight.Inc()
	defer e.metrics.inFlight.Dec()
	o, err := optionsOf(op.verb, opts)
	var answer any
	var info Info
	if err == nil {
		answer, info, err = e.check(ctx, op, req, o.read)
	}
	op.done(started, codeOf(err))
	if o.info != nil {
		info.Leader = e.node.LeaderID()
		*o.info = info
	}
	return answer, err
}

// check holds a request that was built in Go to the rules that one from a client
// is held to, and carries it out, here or on the leader.
func (e *Embedded) check(ctx context.Context, op *operation, req ops.Request, read raftnode.ReadOptions) (any, Info, error) {
	if err := wire.Check(req); err != nil {
		return nil, Info{}, refusedField(err)
	}
	if e.elsewhere(op, read) {
		return e.askLeader(ctx, op, req)
	}
	answer, info, err := e.run(ctx, op, req, read)
	if err != nil && !errors.Is(err, ctx.Err()) {
		err = e.explain(op, err)
	}
	return answer, info, err
}

// elsewhere says whether a call is the leader's to answer, and that is known to be
// another node.
func (e *Embedded) elsewhere(op *operation, read raftnode.ReadOptions) bool {
	if !op.write && read.Level == raftnode.Stale {
		return false
	}
	leader := e.node.LeaderID()
	return leader != "" && leader != e.id
}

// run carries out a decoded request on this node.
func (e *Embedded) run(ctx context.Context, op *operation, req ops.Request, read raftnode.ReadOptions) (answer any, info Info, err error) {
	if err := req.Validate(e.limits); err != nil {
		return nil, Info{}, err
	}
	return op.verb.run(ctx, e, req, read)
}

// explain is the answer for err. What nobody foresaw is logged, here and once.
// Where no leader is known the node says why, such as that it was removed.
func (e *Embedded) explain(op *operation, err error) *ops.Error {
	if errors.Is(err, raftnode.ErrNotLeader) && e.node.LeaderID() == "" {
		if why := e.node.Ready(); why != nil {
			err = ops.Errorf(ops.NoLeader, "%v", why)
		}
	}
	answer, ok := answerFor(err)
	if !ok {
		e.logger.Error("an operation failed", "operation", op.name, "error", err)
	}
	return answer
}

// wireCall is a call in the bytes of a client.
type wireCall struct {
	op      *operation
	in, out wire.Format
	read    raftnode.ReadOptions
	body    []byte
}

// wireAnswer is an answer in bytes: of the response, or of the error object.
type wireAnswer struct {
	code ops.Code // empty when the call was carried out
	info Info
	body []byte
}

// carry carries out a call on this node, and appends its answer to dst.
func (e *Embedded) carry(ctx context.Context, c *wireCall, dst []byte) (a wireAnswer) {
	defer func() {
		if fault := recover(); fault != nil {
			e.logger.Error("an operation panicked", "operation", c.op.name, "panic", fault, "stack", string(debug.Stack()))
			a = failed(c.out, dst, ops.Errorf(ops.Internal, "a fault of this node; its log says more"))
		}
	}()
	req := c.op.newRequest()
	if err := wire.Decode(c.in, c.body, req, wire.Limits{MaxItems: e.limits.MaxElements(req)}); err != nil {
		return failed(c.out, dst, refusedField(err))
	}
	answer, info, err := e.run(ctx, c.op, req, c.read)
	if err == nil {
		a.info = info
		a.body, err = wire.Append(c.out, dst, answer)
	}
	if err != nil {
		return failed(c.out, dst, e.explain(c.op, err))
	}
	return a
}

func failed(f wire.Format, dst []byte, e *ops.Error) wireAnswer {
	return wireAnswer{code: e.Code, body: appendError(f, dst, e)}
}
