package switchover

import (
	"context"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// What a leader asks the control plane for.
type commitKind int

const (
	commitSeal commitKind = iota
	commitFlag
	commitISR
	commitKinds
)

func (k commitKind) String() string {
	return [...]string{"commit-seal", "commit-prefix-in-remote-storage", "alter-partition"}[k]
}

// A request takes at most so many partitions, and so many batches of their producers, which are
// most of its size; a partition with more of these is asked for alone.
const (
	partitionsPerCall = 64
	statesPerCall     = 10_000
)

// attempt is what became of asking for one thing in one epoch. Only the goroutine that
// commits uses it.
type attempt struct {
	epoch    int32 // leader epoch, of alter-partition the partition epoch
	begun    bool
	over     bool // until the epoch changes
	unknown  bool // the outcome of a try is not known
	failures int
	next     time.Time // not before
}

// due says whether to ask now.
func (a *attempt) due(epoch int32, now time.Time) bool {
	if !a.begun || a.epoch != epoch {
		*a = attempt{epoch: epoch, begun: true}
	}
	return !a.over && !now.Before(a.next)
}

// commitWhatIsDue asks for seals, flags and ISRs until the gate is closed.
func (g *Gate) commitWhatIsDue() {
	ticker := g.clock.NewTicker(g.config.RetryInitial)
	defer ticker.Stop()
	for {
		g.commitPass()
		select {
		case <-g.ctx.Done():
			return
		case <-g.kick:
		case <-ticker.Chan():
		}
	}
}

// commitPass asks once for all that is due.
func (g *Gate) commitPass() {
	all := g.all()
	commitTogether(g, all, commitSeal, g.sealWithProducers, func(s *ops.CommitSeal) int { return len(s.ProducerStates) }, g.commitSeals)
	commitTogether(g, all, commitFlag, g.flagDue, func(*ops.CommitPrefix) int { return 0 }, g.commitFlags)
	for _, p := range all {
		g.commitISR(p)
	}
}

// commitTogether collects what is due of one kind, and asks for it in calls of a bounded
// size. Nothing is locked during a call.
func commitTogether[T any](g *Gate, all []*partition, kind commitKind, due func(*partition) (T, bool), statesOf func(*T) int,
	call func(context.Context, []T) ([]ops.Code, error)) {
	var asking []*partition
	var items []T
	states := 0
	ask := func() {
		if len(items) == 0 || g.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(g.ctx, g.config.CommitTimeout)
		defer cancel()
		codes, err := call(ctx, items)
		for i, p := range asking {
			g.answered(p, kind, codeOf(codes, i), err)
		}
		asking, items, states = nil, nil, 0
	}
	for _, p := range all {
		item, ok := due(p)
		if !ok {
			continue
		}
		n := statesOf(&item)
		if len(items) == partitionsPerCall || states+n > statesPerCall {
			ask()
		}
		asking, items, states = append(asking, p), append(items, item), states+n
	}
	ask()
}

func codeOf(codes []ops.Code, i int) ops.Code {
	if i < len(codes) {
		return codes[i]
	}
	return ops.Internal
}

// answered notes what became of a try. A fenced epoch ends it: another leader's turn, or
// this one's in another epoch, which a registration will say. All else is tried again.
func (g *Gate) answered(p *partition, kind commitKind, code ops.Code, err error) {
	a := &p.commits[kind]
	if err == nil && (code == ops.FencedLeaderEpoch || code == ops.None && kind != commitISR) {
		a.over = true
	}
	a.unknown = a.unknown || err != nil
	a.next = g.clock.Now().Add(min(g.config.RetryInitial<<min(a.failures, 20), g.config.RetryMax))
	a.failures++
	if err != nil || code != ops.None {
		g.logger.Warn("a commit was not carried out", "operation", kind.String(), "topic", p.ref.TopicID.String(),
			"partition", p.ref.Partition, "code", code, "error", err, "try", a.failures)
	}
}

// leading calls fn with the lock of the log held shared if this broker leads the partition,
// and can be asked now: a partition whose disk is at work is looked at again at the next
// tick, and holds up no other.
func (g *Gate) leading(p *partition, fn func() bool) bool {
	if !p.mu.TryRLock() {
		return false
	}
	defer p.mu.RUnlock()
	return p.leads(g.config.BrokerID) && p.offline == "" && fn()
}

// sealDue: everything in the sealed log is committed, so its end is the seal.
func (g *Gate) sealDue(p *partition) (item ops.CommitSeal, due bool) {
	due = g.leading(p, func() bool {
		end := p.log.EndOffset()
		if !p.reg.Pending() || p.log.HighWatermark() != end || !p.commits[commitSeal].due(p.reg.LeaderEpoch, g.clock.Now()) {
			return false
		}
		item = ops.CommitSeal{
			TopicID: p.ref.TopicID, Partition: p.ref.Partition, BrokerID: g.config.BrokerID, LeaderEpoch: p.reg.LeaderEpoch,
			LogStartOffset: p.log.LogStartOffset(), DisklessStartOffset: end,
		}
		return true
	})
	return item, due
}

// sealWithProducers is sealDue with the active producers, which do not change any more in a
// sealed log. Where they cannot be read, the seal is due later, and no other waits for it.
func (g *Gate) sealWithProducers(p *partition) (item ops.CommitSeal, due bool) {
	if item, due = g.sealDue(p); !due {
		return item, false
	}
	states, err := g.deps.Producers.ActiveStates(p.ref)
	if err != nil {
		g.answered(p, commitSeal, ops.Internal, fmt.Errorf("read its producers: %w", err))
		return item, false
	}
	item.ProducerStates = states
	return item, true
}

func (g *Gate) commitSeals(ctx context.Context, items []ops.CommitSeal) ([]ops.Code, error) {
	answer, err := g.deps.ControlPlane.CommitSeal(ctx, &ops.CommitSealRequest{Requests: items})
	if err != nil {
		return nil, err
	}
	codes := make([]ops.Code, len(answer.Responses))
	for i, r := range answer.Responses {
		codes[i] = r.Error
	}
	return codes, nil
}

// flagDue: this broker's metadata lists all of the prefix, or there is none.
func (g *Gate) flagDue(p *partition) (item ops.CommitPrefix, due bool) {
	highest := g.deps.Remote.HighestOffset(p.ref)
	due = g.leading(p, func() bool {
		start := p.log.LogStartOffset()
		if !p.reg.State.ClassicPrefixWaitingForUpload() || highest < p.reg.Seal()-1 && start < p.reg.Seal() ||
			!p.commits[commitFlag].due(p.reg.LeaderEpoch, g.clock.Now()) {
			return false
		}
		item = ops.CommitPrefix{
			TopicID: p.ref.TopicID, Partition: p.ref.Partition, BrokerID: g.config.BrokerID, LeaderEpoch: p.reg.LeaderEpoch,
			LogStartOffset: start, HighestRemoteOffset: highest,
		}
		return true
	})
	return item, due
}

func (g *Gate) commitFlags(ctx context.Context, items []ops.CommitPrefix) ([]ops.Code, error) {
	answer, err := g.deps.ControlPlane.CommitPrefixInRemoteStorage(ctx, &ops.CommitPrefixInRemoteStorageRequest{Requests: items})
	if err != nil {
		return nil, err
	}
	codes := make([]ops.Code, len(answer.Responses))
	for i, r := range answer.Responses {
		codes[i] = r.Error
	}
	return codes, nil
}

// commitISR asks for another ISR if the followers' progress says so.
func (g *Gate) commitISR(p *partition) {
	var request *ops.AlterPartitionRequest
	now := g.clock.Now()
	g.leading(p, func() bool {
		if p.reg.State.Diskless() || !p.commits[commitISR].due(p.reg.PartitionEpoch, now) {
			return false
		}
		isr := p.progress.wanted(p.log, p.reg, g.config.BrokerID, g.deps.Brokers, now, g.config.ReplicaLagMax)
		if isr != nil {
			request = g.alterPartition(p.reg, isr)
		}
		return isr != nil
	})
	if request == nil {
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.config.CommitTimeout)
	defer cancel()
	code := ops.Internal
	answer, err := g.deps.ControlPlane.AlterPartition(ctx, request)
	if err == nil {
		code = answer.Error
	}
	g.answered(p, commitISR, code, err)
	if code == ops.IneligibleReplica && !p.commits[commitISR].unknown {
		p.progress.settle() // the partition epoch was still ours: nothing that was asked for has come true
	}
}

func (g *Gate) alterPartition(reg *Registration, isr []int32) *ops.AlterPartitionRequest {
	members := make([]ops.ISRMember, len(isr))
	for i, id := range isr {
		epoch, _ := g.deps.Brokers.Epoch(id)
		members[i] = ops.ISRMember{BrokerID: id, BrokerEpoch: epoch}
	}
	return &ops.AlterPartitionRequest{
		TopicID: reg.TopicID, Partition: reg.Partition, BrokerID: g.config.BrokerID,
		LeaderEpoch: reg.LeaderEpoch, PartitionEpoch: reg.PartitionEpoch, NewISR: members,
	}
}
