package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpnode/cpnode/api"
	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/raftnode"
)

// node is a machine with a disk, a clock, and a supervisor that starts its process
// again whenever that has ended.
type node struct {
	cluster *cluster
	peer    raftnode.Peer
	disk    *disk
	skew    atomic.Int64 // nanoseconds that its clock is ahead
	random  *rand.Rand   // of what power cuts leave; one process at a time draws from it
	// excused: its disk has done what a node must not go on from.
	excused atomic.Bool
	// lied: its disk has forgotten records of the state.
	lied   atomic.Bool
	orders chan order

	mu      sync.Mutex
	process *process // nil while none runs
	down    time.Duration
	runs    int
}

// order is what an operator does to a node that runs.
type order struct {
	wipe bool          // end it, and give the machine an empty disk; else stop it properly
	down time.Duration // until it is started again
}

// restartAfter is how soon a supervisor starts a process that ended by itself.
const restartAfter = time.Second

// live runs processes one after the other until ctx ends.
func (n *node) live(ctx context.Context) {
	for ctx.Err() == nil {
		p, err := n.start()
		if err != nil {
			n.failedToStart(p, err)
		} else {
			n.set(p)
			n.attend(ctx, p)
			n.set(nil)
		}
		pause(ctx, max(restartAfter/10, n.takeDown()))
	}
}

// attend waits for the end of a process, and clears up after it.
func (n *node) attend(ctx context.Context, p *process) {
	select {
	case <-p.over:
		n.check(p.bury(), "put the disk in order")
	case <-p.node.Stopped():
		err := p.node.Err()
		if p.dead() {
			n.check(p.bury(), "put the disk in order")
			return
		}
		if !n.excused.Load() {
			n.cluster.fail("node %s has stopped by itself: %v", n.peer.ID, err)
		}
		n.cluster.say("%s stopped by itself: %v", n.peer.ID, err)
		n.downFor(restartAfter)
		_ = p.node.Close() // it has said why already
		n.cluster.network.stop(p.host, false)
	case o := <-n.orders:
		n.downFor(o.down)
		if o.wipe {
			p.crash(false)
			n.check(errors.Join(p.bury(), n.disk.wipe()), "empty the disk")
			return
		}
		n.close(p)
	case <-ctx.Done():
		n.close(p)
	}
}

// close stops a process properly.
func (n *node) close(p *process) {
	if err := p.node.Close(); err != nil && !p.dead() && !n.excused.Load() {
		n.cluster.fail("node %s did not stop properly: %v", n.peer.ID, err)
	}
	n.cluster.network.stop(p.host, false)
	if p.dead() {
		n.check(p.bury(), "put the disk in order")
	}
}

// start opens a node. Its error comes with the process that did not come up.
func (n *node) start() (p *process, err error) {
	n.runs++
	n.excused.Store(n.disk.unsound())
	p = newProcess(n.disk, n.cluster.network.start(n.peer.Addr), n.random)
	p.node, err = raftnode.Open(n.config(p))
	if err != nil {
		p.node = nil
		return p, err
	}
	p.plane = api.NewEmbedded(p.node, api.EmbeddedConfig{Logger: n.logger()})
	n.cluster.startWorkers(p)
	return p, nil
}

// failedToStart is for a process whose end came while it started, or whose disk fails:
// nothing else may keep a node from starting.
func (n *node) failedToStart(p *process, err error) {
	n.cluster.say("%s does not start: %v", n.peer.ID, err)
	n.downFor(restartAfter)
	switch {
	case p.dead():
		n.check(p.bury(), "put the disk in order")
	case n.disk.faulty():
		n.cluster.network.stop(p.host, false)
	case n.lied.Load() && errors.Is(err, raftnode.ErrLogLost):
		n.cluster.network.stop(p.host, false)
		if n.cluster.othersReady(n) {
			n.check(n.disk.wipe(), "empty the disk")
		}
	default:
		n.cluster.network.stop(p.host, false)
		n.cluster.fail("node %s does not start: %v", n.peer.ID, err)
	}
}

func (n *node) check(err error, what string) {
	if err != nil {
		n.cluster.fail("the simulator could not %s of %s: %v", what, n.peer.ID, err)
	}
}

func (n *node) config(p *process) raftnode.Config {
	c := raftnode.DefaultConfig()
	c.NodeID, c.DataDir, c.RaftAddr = n.peer.ID, n.disk.dir, n.peer.Addr
	c.Peers, c.Logger = n.cluster.peers, n.logger()
	n.cluster.scenario.apply(&c)
	c.Now = func() time.Time { return time.Now().Add(time.Duration(n.skew.Load())) }
	c.Surroundings = raftnode.Surroundings{
		Listen:    func(string) (net.Listener, error) { return p.host, nil },
		Dial:      p.host.dial,
		Log:       func() (raftnode.LogDisk, error) { return &logUse{n.disk.log, p}, nil },
		State:     p.watch(),
		FreeBytes: n.disk.free,
		BootID:    n.disk.bootID,
	}
	return c
}

func (n *node) logger() *slog.Logger {
	if !n.cluster.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", n.peer.ID)
}

func (n *node) set(p *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = p
}

// running is the process, nil while there is none that lives.
func (n *node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil || n.process.dead() {
		return nil
	}
	return n.process
}

// downFor keeps the supervisor from starting the next process for a while.
func (n *node) downFor(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = max(n.down, d)
}

func (n *node) takeDown() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.down
	n.down = 0
	return d
}

// call carries out a call of a client. What a process answers after its end, nobody
// hears.
func (n *node) call(fn func(api.ControlPlane) error) error {
	p := n.running()
	if p == nil {
		return ops.Errorf(ops.NoLeader, "node %s is down", n.peer.ID)
	}
	err := fn(p.plane)
	var answer *ops.Error
	switch {
	case p.dead():
		return ops.Errorf(ops.OutcomeUnknown, "node %s ended before it answered", n.peer.ID)
	case err == nil || errors.As(err, &answer):
		return err
	default: // the client's own patience
		return ops.Errorf(ops.OutcomeUnknown, "%v", err)
	}
}

// ready is nil when the node runs and serves.
func (n *node) ready() error {
	p := n.running()
	if p == nil {
		return fmt.Errorf("node %s is down", n.peer.ID)
	}
	if err := p.node.Ready(); err != nil {
		return fmt.Errorf("node %s: %w", n.peer.ID, err)
	}
	return nil
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
