package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/store"
)

// Node is one running node. Its methods may be called from any goroutine.
type Node struct {
	config  Config
	logger  *slog.Logger
	metrics *metrics

	lock       *dirLock
	identity   atomic.Pointer[identity]
	noting     sync.Mutex // held while node.json changes
	store      *store.Store
	fsm        *fsm.FSM
	log        *logStore
	network    *network
	advertised string // where others reach this node
	transport  *transport
	raft       *raft.Raft

	inFlight    inFlight
	pacer       pacer
	space       space
	progress    progress
	leads       atomic.Pointer[leadership]
	duties      *duties
	confirmer   *confirmer
	fresh       freshness
	forwards    *forwards
	handler     atomic.Pointer[func(context.Context, []byte) []byte]
	waiting     atomic.Pointer[string] // why this node is not part of a cluster yet, or who refuses it
	polls       polls
	changing    chan struct{} // held by who changes the configuration
	checkpoints checkpoints
	missing     atomic.Pointer[missingState] // nil: the state is there
	restoring   sync.Mutex                   // held while a received state is put in place
	snapshots   *snapshotStore
	quiet       quieter
	backups     atomic.Int32 // that are being read

	ctx        context.Context // ends when the node stops
	cancel     context.CancelFunc
	done       sync.WaitGroup // goroutines that end with ctx
	removed    chan struct{}  // closed when the node finds that it is no member any more
	raftEnded  chan struct{}  // closed when nothing of raft's runs any more
	raftError  error          // of its end
	flusher    flusher
	due        chan struct{} // many transactions were made since the last sync point
	failure    atomic.Pointer[error]
	failed     chan struct{}
	closing    atomic.Bool
	closed     sync.Once
	closeError error
}

// Open starts a node on its data directory. It returns as soon as the node runs,
// which is before it has a leader and, the first time, before its cluster is
// formed: see Ready. The errors say what to do: ErrLocked, ErrNotDataDir, ErrOtherNode,
// ErrOtherCluster, ErrLogLost, ErrLogDamaged, store.ErrCorrupt, or an invalid Config.
func Open(config Config) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{
		config: config, logger: config.Logger, failed: make(chan struct{}), removed: make(chan struct{}), due: make(chan struct{}, 1), flusher: newFlusher(), changing: make(chan struct{}, 1), ctx: ctx, cancel: cancel, duties: newDuties(ctx),
		inFlight: inFlight{maxEntries: config.MaxProposals, maxBytes: config.MaxProposalBytes},
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.release())
	}
	n.start()
	return n, nil
}

// open makes all parts; what it made before an error is released by the caller.
func (n *Node) open() (err error) {
	dir := n.config.DataDir
	n.metrics = newMetrics(n.config.Registerer)
	if n.lock, err = lockDir(dir); err != nil {
		return err
	}
	id, err := loadIdentity(dir, n.config.NodeID)
	if err != nil {
		return err
	}
	n.identity.Store(&id)
	snapshots, err := n.openFiles(dir)
	if err != nil {
		return err
	}
	n.openSpace()
	if err := n.checkLog(); err != nil {
		return err
	}
	if err := n.openNetwork(); err != nil {
		return err
	}
	if err := n.openRaft(snapshots); err != nil {
		return err
	}
	return n.metrics.register(n.gauges())
}

// openFiles opens the state first: its records are raft's snapshots, which the log
// asks how much of it may be deleted.
func (n *Node) openFiles(dir string) (snapshots raft.SnapshotStore, err error) {
	if err := n.openState(dir); err != nil {
		return nil, err
	}
	if err := n.checkCluster(); err != nil {
		return nil, err
	}
	n.fsm, err = fsm.New(n.store, fsm.Owner{
		Stopped: func(err error) { n.fail(err) }, NoSpace: n.starve("entries", &n.space.apply), Held: n.flusher.hold, Committed: n.committed,
		Cluster: func() [16]byte { return n.identity.Load().Cluster },
	})
	if err != nil {
		return nil, err
	}
	n.checkpoints.wake = make(chan struct{}, 1)
	n.fsm.OnCheckpoint(n.checkpoints.add)
	n.snapshots = &snapshotStore{store: n.store, instead: n.instead, stream: n.fsm.Stream}
	snapshots = n.snapshots
	if open := n.config.Surroundings.Log; open != nil {
		n.log, err = logOn(open, snapshots, n.metrics.logTimed)
	} else {
		n.log, err = openLog(filepath.Join(dir, logFile), n.config.RaftLogStore, snapshots, n.metrics.logTimed)
	}
	if err != nil {
		return nil, err
	}
	if n.log.kind != n.config.RaftLogStore && n.log.bolt != nil {
		n.logger.Warn("the directory keeps its raft log as it was begun", "store", n.log.kind, "configured", n.config.RaftLogStore)
	}
	n.log.pace.slow, n.log.beforeAppend = n.config.LeaderSlowDisk/slowFraction, n.config.beforeAppend
	n.log.starved = n.starve("raft's log", &n.space.log)
	return snapshots, err
}

// checkCluster refuses a state that was made in another cluster than the directory's.
func (n *Node) checkCluster() error {
	var state clusterID
	if err := n.store.View(func(tx *store.ReadTx) error { state = tx.Meta().ClusterID; return nil }); err != nil {
		return err
	}
	if own := n.identity.Load().Cluster; state != own && state != (clusterID{}) {
		return fmt.Errorf("%w: the state is of cluster %s, the directory of %s; put its own file back, or if cpnode recover was interrupted run it again", ErrOtherCluster, state, own)
	}
	return nil
}

// checkLog refuses a log that lacks entries which the state holds, or needs: a
// node that has lost what it promised must not vote.
func (n *Node) checkLog() error {
	first, err := n.log.FirstIndex()
	if err != nil {
		return err
	}
	if m := n.missing.Load(); m != nil && first == 1 {
		m.position = fsm.Position{} // the log is whole
	}
	at, err := n.snapshots.position()
	if err != nil {
		return err
	}
	last, err := n.log.LastIndex()
	if err != nil {
		return err
	}
	const advice = "empty the directory and start the node again: it is taken back as a learner"
	switch applied, end := n.fsm.Applied(), max(last, at.Index, at.Received); {
	case end < applied:
		return fmt.Errorf("%w: it ends at %d, the state at %d; %s", ErrLogLost, end, applied, advice)
	case first > at.Index+1:
		return fmt.Errorf("%w: it begins at %d, the snapshot ends at %d; %s", ErrLogLost, first, at.Index, advice)
	case last == 0 && at.Index > 0 && n.log.term.Load() == 0:
		return fmt.Errorf("%w: it holds no promise, the snapshot ends at %d; %s", ErrLogLost, at.Index, advice)
	case last == 0 && at.Index == 0 && n.log.term.Load() == 0 && n.identity.Load().Joined:
		return fmt.Errorf("%w: it is empty; %s", ErrLogLost, advice)
	}
	term, err := n.log.lastTerm()
	if err != nil {
		return err
	}
	if kept := n.log.term.Load(); term > kept {
		return fmt.Errorf("%w: its last entry is of term %d, the last that it remembers to have been in is %d; %s", ErrLogLost, term, kept, advice)
	}
	return n.log.scanGaps(n.fsm.Applied())
}

// openNetwork makes the raft port, through which nobody comes before start.
func (n *Node) openNetwork() error {
	security, err := newSecurity(n.config.RaftTLS, n.config.RaftSecretFile, n.logger)
	if err != nil {
		return err
	}
	if n.network, err = listen(n.config.RaftAddr, n.config.Surroundings, security, n.logger); err != nil {
		return err
	}
	n.advertised = n.advertise()
	n.network.self, n.network.judge = n.self, n.judge
	return nil
}

// advertise is where others reach this node.
func (n *Node) advertise() string {
	if n.config.RaftAdvertise != "" {
		return n.config.RaftAdvertise
	}
	for _, p := range n.config.Peers {
		if p.ID == n.config.NodeID {
			return p.Addr
		}
	}
	return n.network.listener.Addr().String()
}

// self is this node as it introduces itself.
func (n *Node) self() party {
	id := n.identity.Load()
	return party{Cluster: id.Cluster, NodeID: id.NodeID, Instance: id.Instance, Addr: n.advertised}
}

// id is this node's server id, which never changes.
func (n *Node) id() raft.ServerID { return n.identity.Load().serverID() }

// judge says whether a connection of another node is taken. See DESIGN.md, Members.
func (n *Node) judge(kind connKind, from *hello) verdict {
	self := n.identity.Load()
	switch {
	case from.Want != "" && from.Want != self.serverID():
		return refusedWant
	case kind == kindControl && (!self.formed() || from.Cluster == clusterID{}):
		return accepted
	case kind == kindControl && from.Cluster == self.Cluster:
		return accepted
	case !self.formed():
		return refusedForming
	case from.Cluster != self.Cluster:
		return refusedCluster
	case from.Want == "":
		return refusedWant
	case n.strange(from.serverID()):
		return refusedMember
	}
	return accepted
}

// strange says whether this node knows that another is not a member. That takes a
// leader: without one, its configuration may be older than the other's membership.
func (n *Node) strange(id raft.ServerID) bool {
	servers := n.servers()
	if _, member := findServer(servers, id); member || len(servers) == 0 {
		return false
	}
	return n.raft.State() == raft.Leader || n.hearsLeader()
}

// hearsLeader says whether this node, a follower, was in touch with its leader
// within the time after which it would stand for election.
func (n *Node) hearsLeader() bool {
	return n.LeaderID() != "" && time.Since(n.raft.LastContact()) < n.config.HeartbeatTimeout
}

// openRaft makes raft, which panics on a log it cannot read.
func (n *Node) openRaft(snapshots raft.SnapshotStore) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("raft: %v", p)
		}
	}()
	logger := raftLogger(n.logger)
	n.confirmer = newConfirmer(n, n.config.confirm)
	n.fresh.applied = n.caughtUp
	n.forwards = newForwards(n.dialKind(kindForward))
	n.transport = newTransport(n.advertised, n.dialKind(kindRaft), logger, func(rpc *raft.RPC) {
		n.judgeByLog(rpc)
		n.fresh.observe(rpc, n.raft.CurrentTerm())
	}, n.moves)
	notices := make(chan bool, 1)
	config := n.config.RaftConfig()
	config.LocalID, config.Logger, config.NotifyCh = n.id(), logger, notices
	// The cache serves the followers and, on a follower, the state machine: an
	// entry is seldom read from disk again right after it was written.
	cache, err := raft.NewLogCache(n.config.MaxAppendEntries, n.log)
	if err != nil {
		return err
	}
	n.raft, err = raft.NewRaft(config, &timedFSM{n.fsm, n}, cache, n.log, snapshots, n.transport)
	if err != nil {
		return err
	}
	// raft says only to who ends it first when it has ended: that is one, for all others.
	n.raftEnded = make(chan struct{})
	go func() {
		select {
		case <-n.ctx.Done():
		case <-n.removed:
		}
		n.raftError = n.raft.Shutdown().Error()
		close(n.raftEnded)
	}()
	halt := func(err error) { n.fail(err) }
	n.log.halt.Store(&halt)
	n.run(func() { n.lead(notices) })
	return nil
}

// moves says whether a heartbeat would change the term of a follower, or end a candidacy.
// A leader is not asked to wait: its main loop may hang, and it must hear of the next one.
func (n *Node) moves(term uint64) bool {
	switch n.raft.State() {
	case raft.Follower:
		return term > n.raft.CurrentTerm()
	case raft.Candidate:
		return true
	default:
		return false
	}
}

// start lets the others in and this node out.
func (n *Node) start() {
	n.network.handle(kindRaft, n.transport.layer.offer)
	n.network.handle(kindTerm, func(conn net.Conn, _ party) { serveTerms(conn, n.log.term.Load) })
	n.network.handle(kindForward, n.serveForwarded)
	n.network.handle(kindControl, n.serveControl)
	n.network.handle(kindState, n.serveState)
	n.network.start()
	n.run(func() { n.confirmer.run(n.ctx) })
	n.run(n.syncState)
	n.run(n.watch)
	n.run(n.flushState)
	n.run(n.judgeSelf)
	n.run(n.refetch)
	n.run(func() {
		if err := n.join(); err != nil && n.ctx.Err() == nil {
			n.fail(fmt.Errorf("form the cluster: %w", err))
			return
		}
		n.lookOut(n.ctx)
	})
}

// run runs fn beside, until it returns; Close waits for it.
func (n *Node) run(fn func()) {
	n.done.Add(1)
	go func() {
		defer n.done.Done()
		fn()
	}()
}

// join makes this node part of its cluster, unless it is.
func (n *Node) join() error {
	id := *n.identity.Load()
	switch {
	case id.Joined:
		n.warnOfPeers()
		return nil
	case len(id.Members) > 0:
		return n.become(id)
	default:
		return n.form(n.ctx)
	}
}

// fail stops the node for good, in a state that it would be wrong to go on from.
// It returns why: the first error it was called with. It does not wait.
func (n *Node) fail(err error) error {
	if n.failure.CompareAndSwap(nil, &err) {
		n.logger.Error("this node has stopped and must be looked at", "error", err)
		n.remember(err)
		close(n.failed)
		n.cancel()
	}
	return n.Err()
}

// remember notes in node.json that the state must not be used again: the next start
// replaces it.
func (n *Node) remember(err error) {
	if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, ErrDiverged) {
		return
	}
	if err := n.note(func(id *identity) { id.Corrupt = err.Error() }); err != nil {
		n.logger.Error("could not note that the state must be replaced", "error", err)
	}
}

// note changes node.json, and then what this process knows of itself.
func (n *Node) note(change func(*identity)) error {
	n.noting.Lock()
	defer n.noting.Unlock()
	id := *n.identity.Load()
	change(&id)
	if err := id.save(n.config.DataDir); err != nil {
		return err
	}
	n.identity.Store(&id)
	return nil
}

// Err is why the node has stopped, nil while it runs. It stays nil after Close.
func (n *Node) Err() error {
	if err := n.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Stopped is closed when the node has stopped by itself; Err says why. The owner
// then closes it, and exits.
func (n *Node) Stopped() <-chan struct{} { return n.failed }

// serving is nil while the node takes requests.
func (n *Node) serving() error {
	if err := n.Err(); err != nil {
		return corruptError(err)
	}
	if n.closing.Load() {
		return errShuttingDown
	}
	return nil
}

const (
	drainTimeout    = 5 * time.Second
	transferTimeout = 3 * time.Second
)

// Close stops the node: it ends what WhileLeading began, takes no more requests, waits
// a moment for those it has, hands leadership over, and closes its files. It is idempotent.
func (n *Node) Close() error {
	n.closing.Store(true)
	n.closed.Do(func() {
		n.endDuties()
		n.drain()
		n.handOver()
		n.closeError = n.release()
	})
	return n.closeError
}

// drain waits for the outcomes of what was proposed. raft leaves those without an
// answer that are queued when it is shut down.
func (n *Node) drain() {
	select {
	case <-n.inFlight.close():
	case <-n.ctx.Done():
	case <-time.After(drainTimeout):
	}
}

// handOver lets another node lead, so that the cluster need not find out that this
// one is gone.
func (n *Node) handOver() {
	if n.Err() != nil || n.leading() == nil || len(voters(n.servers())) == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, transferTimeout)
	defer cancel()
	if err := n.Transfer(ctx, ""); err != nil {
		n.logger.Warn("could not hand leadership over", "error", err)
	}
}

// release closes what was opened, in the order of use: first what calls, then what
// is called, the lock last.
func (n *Node) release() error {
	n.cancel()
	var errs []error
	if n.raftEnded != nil {
		n.transport.layer.mute() // what is being sent is not waited for
		<-n.raftEnded            // what raft calls is closed below
		errs = append(errs, n.raftError)
	}
	close(n.flusher.stop)
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	if n.network != nil {
		errs = append(errs, n.network.close())
	}
	if n.forwards != nil {
		n.forwards.close()
	}
	n.done.Wait()
	if n.fsm != nil && n.Err() == nil && n.fsm.Err() == nil {
		errs = append(errs, n.fsm.Sync()) // the next start reads less of the log
	}
	if n.fsm != nil {
		if err := n.fsm.Close(); !store.NoSpace(err) { // the log has what found no room
			errs = append(errs, err)
		}
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	if n.metrics != nil {
		n.metrics.unregister()
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}
