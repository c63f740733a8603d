package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// ErrDiverged is wrapped by the error of a node that has stopped because its state
// is not what the others have, or because no majority has the same.
var ErrDiverged = errors.New("the state differs from that of other nodes")

// checkpoint is the digest of this node's state at one log entry, the same on all
// nodes.
type checkpoint struct {
	Index  uint64       `json:"index"`
	Digest store.Digest `json:"digest"`
}

// checkpoints are the latest ones, oldest first.
type checkpoints struct {
	mu    sync.Mutex
	known []checkpoint
	wake  chan struct{} // of one element: there is a new one
}

const (
	// keptCheckpoints lets a node that is behind be compared as well.
	keptCheckpoints = 16
	judgeRetry      = 100 * time.Millisecond
	// dividedGrace is for the others to ask as well before all of them stop.
	dividedGrace = 2 * time.Second
)

// add is called by the state machine, and does not wait.
func (c *checkpoints) add(index uint64, digest store.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = append(c.known, checkpoint{index, digest})
	if len(c.known) > keptCheckpoints {
		c.known = append(c.known[:0], c.known[1:]...)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *checkpoints) all() []checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]checkpoint(nil), c.known...)
}

func (c *checkpoints) last() (last checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > 0 {
		last = c.known[len(c.known)-1]
	}
	return last
}

// proposeCheckpoints has the digests compared again and again while this node leads,
// if the state has changed.
func (n *Node) proposeCheckpoints(ctx context.Context) {
	if n.config.CheckpointInterval == 0 {
		return
	}
	for wait(ctx, n.config.CheckpointInterval) == nil {
		var digest store.Digest
		err := n.view(func(tx *store.ReadTx) error { digest = tx.Meta().Digest; return nil })
		if err != nil || digest == n.checkpoints.last().Digest {
			continue
		}
		if _, err := n.Propose(ctx, &ops.CheckpointDigest{}); err != nil && ctx.Err() == nil {
			n.quiet.say("checkpoint", func() { n.logger.Warn("cannot log a checkpoint", "error", err) })
		}
	}
}

// judgeSelf compares each checkpoint with those of the voters.
func (n *Node) judgeSelf() {
	for {
		select {
		case <-n.checkpoints.wake:
			n.compare(n.checkpoints.last())
		case <-n.ctx.Done():
			return
		}
	}
}

// compare asks the voters until this node knows where it stands, or there is a later
// checkpoint. A voter that does not answer may have either digest.
func (n *Node) compare(mine checkpoint) {
	said := map[raft.ServerID]store.Digest{}
	for n.checkpoints.last() == mine && wait(n.ctx, 0) == nil {
		all := voters(n.servers())
		n.askDigests(all, mine, said)
		switch v := judge(all, said, mine.Digest); v.verdict {
		case sameAsMajority:
			return
		case inMinority:
			n.fail(fmt.Errorf("%w: at log entry %d this node has digest %s, a majority of the voters %s; start it again: it fetches the state from another node",
				ErrDiverged, mine.Index, mine.Digest, v.digest))
			return
		case divided:
			_ = wait(n.ctx, dividedGrace)
			n.fail(fmt.Errorf("%w: at log entry %d no majority of the voters has the same digest, this node has %s; run cpnode check on each node's directory: see Divided cluster in docs/operating.md",
				ErrDiverged, mine.Index, mine.Digest))
			return
		}
		_ = wait(n.ctx, judgeRetry)
	}
}

// askDigests adds what voters say of the checkpoint, this node's own included.
func (n *Node) askDigests(all []raft.Server, mine checkpoint, said map[raft.ServerID]store.Digest) {
	ctx, cancel := context.WithTimeout(n.ctx, controlTimeout)
	defer cancel()
	type reply struct {
		id     raft.ServerID
		report *nodeReport
	}
	replies, asked := make(chan reply), 0
	for _, s := range all {
		if s.ID == n.id() {
			said[s.ID] = mine.Digest
		}
		if _, known := said[s.ID]; known {
			continue
		}
		asked++
		go func() {
			answer, err := n.askMember(ctx, s.ID, controlRequest{Verb: verbReport})
			if err != nil {
				answer.Report = nil
			}
			replies <- reply{s.ID, answer.Report}
		}()
	}
	for range asked {
		r := <-replies
		if r.report == nil {
			continue
		}
		for _, c := range r.report.Checkpoints {
			if c.Index == mine.Index {
				said[r.id] = c.Digest
			}
		}
	}
}

type verdictOnState int

const (
	undecided verdictOnState = iota
	sameAsMajority
	inMinority
	divided
)

// judgement is where a node stands; digest is the majority's, where there is one.
type judgement struct {
	verdict verdictOnState
	digest  store.Digest
}

// judge compares the node's digest with what the voters said, who may not all have
// answered.
func judge(all []raft.Server, said map[raft.ServerID]store.Digest, mine store.Digest) judgement {
	votes, best := map[store.Digest]int{}, 0
	answered := 0
	for _, s := range all {
		digest, ok := said[s.ID]
		if !ok {
			continue
		}
		answered++
		votes[digest]++
		best = max(best, votes[digest])
		if votes[digest] <= len(all)/2 {
			continue
		}
		if digest == mine {
			return judgement{sameAsMajority, digest}
		}
		return judgement{inMinority, digest}
	}
	if best+len(all)-answered <= len(all)/2 {
		return judgement{verdict: divided}
	}
	return judgement{}
}
