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

// partitionsPerCall bounds a request; producer states are most of its size.
const partitionsPerCall = 64

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
	commitTogether(g, all, commitSeal, g.sealDue, g.commitSeals)
	commitTogether(g, all, commitFlag, g.flagDue, g.commitFlags)
	for _, p := range all {
		g.commitISR(p)
	}
}

// commitTogether collects what is due of one kind, and asks for it in calls of a bounded
// size. Nothing is locked during a call.
func commitTogether[T any](g *Gate, all []*partition, kind commitKind, due func(*partition) (T, bool),
	call func(context.Context, []T) ([]ops.Code, error)) {
	var asking []*partition
	var items []T
	for _, p := range all {
		if item, ok := due(p); ok {
			asking, items = append(asking, p), append(items, item)
		}
	}
	for len(items) > 0 && g.ctx.Err() == nil {
		n := min(len(items), partitionsPerCall)
		ctx, cancel := context.WithTimeout(g.ctx, g.config.CommitTimeout)
		codes, err := call(ctx, items[:n])
		cancel()
		for i, p := range asking[:n] {
			g.answered(p, kind, codeOf(codes, i), err)
		}
		asking, items = asking[n:], items[n:]
	}
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
		g.logger.Warn("the control plane refused a commit", "operation", kind.String(), "topic", p.ref.TopicID.String(),
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

// commitSeals adds the active producers, which do not change any more in a sealed log.
func (g *Gate) commitSeals(ctx context.Context, items []ops.CommitSeal) ([]ops.Code, error) {
	for i := range items {
		ref := ops.LogRef{TopicID: items[i].TopicID, Partition: items[i].Partition}
		states, err := g.deps.Producers.ActiveStates(ref)
		if err != nil {
			return nil, fmt.Errorf("producers of %s-%d: %w", ref.TopicID, ref.Partition, err)
		}
		items[i].ProducerStates = states
	}
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
