package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/fsm"
	"github.com/cpnode/cpnode/ops"
)

// Result is the answer to a write.
type Result struct {
	// Answer is the operation's response.
	Answer any
	// Index is that of the operation's last entry; 0 when nothing was proposed.
	Index uint64
}

// Propose carries out a write. Its error is one of
//   - ErrNotLeader, or an *ops.Error that says why nothing was proposed or that
//     the operation was refused: nothing was changed;
//   - *ops.Error with OUTCOME_UNKNOWN: it may or may not take effect, or did in part;
//   - ctx's, when it ended before anything was proposed.
//
// What was proposed goes on when ctx ends; only the wait for it does not.
func (n *Node) Propose(ctx context.Context, w ops.Write) (Result, error) {
	if err := n.serving(); err != nil {
		return Result{}, err
	}
	leads := n.leading()
	if leads == nil {
		return Result{}, ErrNotLeader
	}
	p := proposer{node: n, ctx: ctx, leads: leads}
	out, err := p.run(w)
	if out.FromRead {
		err = p.confirm(out, err)
	}
	if err != nil {
		return Result{Index: p.index}, err
	}
	return Result{Answer: out.Answer, Index: p.index}, nil
}

func (n *Node) clock() int64 { return n.config.Now().UnixMilli() }

// proposer carries the entries of one write.
type proposer struct {
	node  *Node
	ctx   context.Context
	leads *leadership // when the write began
	index uint64      // of the latest entry that was answered
}

// run carries w out. A commit of a file, the write that comes in masses, looks at
// the state as it is: an entry that turns out not to be needed does no harm, and
// only what it finds settled there must be looked at again with all that was answered.
func (p *proposer) run(w ops.Write) (ops.Outcome, error) {
	n := p.node
	if _, ok := w.(*ops.CommitFileRequest); ok {
		if out, err := ops.Run(w, n.config.Settings, n.view, n.clock, p.propose); !out.FromRead || out.Parts > 0 {
			return out, err
		}
	}
	return ops.Run(w, n.config.Settings, n.viewAnswered(p.ctx), n.clock, p.propose)
}

// confirm makes sure that this node still led after the state was read that
// decided the answer.
func (p *proposer) confirm(out ops.Outcome, answer error) error {
	ctx, cancel := context.WithTimeout(p.ctx, p.node.config.ReadTimeout)
	defer cancel()
	r, err := p.node.confirmer.lead(ctx)
	if err == nil && r.leads.term != p.leads.term {
		err = ErrNotLeader // leads again: another leader may have written after the read
	}
	switch {
	case err == nil:
		return answer
	case out.Parts > 0:
		return unknown("stopped after %d parts, which stand: %v", out.Parts, err)
	default:
		return p.node.readError(p.ctx, err)
	}
}

// propose logs one command and waits for its result.
func (p *proposer) propose(cmd ops.Command) (any, error) {
	n := p.node
	if err := p.ctx.Err(); err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	op, ok := ops.Lookup(cmd.Op())
	if !ok {
		return nil, fmt.Errorf("command %s has no operation", cmd.Op())
	}
	drain := op.Background || p.index > 0
	if drain {
		p.giveWay()
	}
	entry, err := n.encode(op, cmd, p.index > 0)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	number, err := n.inFlight.add(len(entry), p.index > 0)
	if err != nil {
		n.metrics.proposed(err)
		return nil, err
	}
	answered := make(chan outcome, 1)
	go func() {
		defer n.inFlight.remove(len(entry))
		answered <- n.apply(entry)
	}()
	o := p.wait(answered)
	if drain {
		n.pacer.answered(number, began, time.Now())
	}
	n.metrics.proposed(o.err)
	if o.result.Index > 0 {
		p.index = o.result.Index
	}
	return o.result.Value, o.err
}

// encode is the entry of a command, checked against what this cluster takes now.
// The later entries of a write may use the reserve of a disk that has become full:
// their refusal would leave it half done.
func (n *Node) encode(op *ops.Operation, cmd ops.Command, later bool) ([]byte, error) {
	if level := n.fsm.FeatureLevel(); op.FeatureLevel > level {
		return nil, ops.Errorf(ops.UnsupportedFeatureLevel, "%s needs feature level %d, the cluster is at %d", op.Name, op.FeatureLevel, level)
	}
	if err := n.refusesClock(); err != nil {
		return nil, err
	}
	if err := n.refusesSpace(op); err != nil && !later {
		return nil, err
	}
	entry, err := ops.Encode(cmd, n.clock())
	if err != nil {
		return nil, err
	}
	if limit := op.EntryBytes(n.config.Settings.Limits); len(entry) > limit {
		return nil, ops.Errorf(ops.RequestTooLarge, "log entry of %d bytes, at most %d are taken", len(entry), limit)
	}
	n.metrics.entryBytes.Observe(float64(len(entry)))
	return entry, nil
}

// outcome is what became of one entry.
type outcome struct {
	result fsm.Result
	err    error
}

// wait waits for the outcome, for a while.
func (p *proposer) wait(answered <-chan outcome) outcome {
	timeout := time.NewTimer(p.node.config.OutcomeTimeout)
	defer timeout.Stop()
	select {
	case o := <-answered:
		return o
	case <-p.ctx.Done():
		return outcome{err: unknown("the caller stopped waiting: %v", p.ctx.Err())}
	case <-timeout.C:
		return outcome{err: unknown("no outcome within %s", p.node.config.OutcomeTimeout)}
	case <-p.node.ctx.Done():
		return outcome{err: unknown("this node stopped")}
	}
}

// apply hands the entry to raft and waits until raft answers, however long.
func (n *Node) apply(entry []byte) outcome {
	future := n.raft.Apply(entry, n.config.OutcomeTimeout)
	err := future.Error()
	n.progress.outcome(time.Now(), err == nil)
	if err != nil {
		return outcome{err: applyError(err)}
	}
	result := future.Response().(fsm.Result)
	if result.Err != nil {
		return outcome{err: unknown("entry %d: %v", result.Index, result.Err)}
	}
	return outcome{result: result}
}

// applyError tells refusals, after which the entry cannot take effect, from the
// rest, after which it may.
func applyError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return ErrNotLeader
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ops.Errorf(ops.NoLeader, "the leader takes no entries at present")
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ops.Errorf(ops.NoLeader, "leadership is being handed over")
	default:
		return unknown("%v", err)
	}
}

// inFlight bounds entries that raft has not answered yet, also those that nobody
// waits for any more.
type inFlight struct {
	maxEntries int
	maxBytes   int64

	mu      sync.Mutex
	entries int
	bytes   int64
	added   uint64        // entries so far
	drained chan struct{} // nil until close; closed when nothing is in flight
}

// add counts an entry and numbers it. The later ones of a write are let through:
// their refusal would leave it half done.
func (f *inFlight) add(bytes int, later bool) (number uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drained != nil {
		return 0, errShuttingDown
	}
	if !later && (f.entries >= f.maxEntries || f.bytes+int64(bytes) > f.maxBytes) {
		return 0, ops.Errorf(ops.Overloaded, "%d log entries of %d bytes are in flight", f.entries, f.bytes)
	}
	f.entries++
	f.bytes += int64(bytes)
	f.added++
	return f.added, nil
}

// latest is the number of the latest entry.
func (f *inFlight) latest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.added
}

func (f *inFlight) any() bool {
	entries, _ := f.now()
	return entries > 0
}

// now is what is in flight at this moment.
func (f *inFlight) now() (entries int, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries, f.bytes
}

func (f *inFlight) remove(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries--
	f.bytes -= int64(bytes)
	if f.drained != nil && f.entries == 0 {
		close(f.drained)
	}
}

// close refuses what comes; the result is closed when nothing is in flight.
func (f *inFlight) close() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drained == nil {
		f.drained = make(chan struct{})
		if f.entries == 0 {
			close(f.drained)
		}
	}
	return f.drained
}
