package switchover

import (
	"fmt"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// Apply carries out what the control plane says of a partition: at the start as it is then,
// and at every change of its registration or its topic's config, in log order. A broker that
// starts must not apply what it has missed: a role of the past would be taken with the log of
// today, and might take for committed what is not. A registration that is older than what was
// applied is ignored; the same one again runs everything anew and changes nothing.
//
// When it returns, the role is taken (or given up) and fetchers are started and stopped. It
// may wait for a read or a deletion of this partition, and for fetches under way: a broker
// that applies the changes of many partitions does it on more than one goroutine. Storage
// errors go to the LogDirFailureHandler, and leave the partition offline. A partition that
// this broker holds no log of may be applied too, to be read from other tiers.
func (g *Gate) Apply(reg Registration) {
	p := g.obtain(reg.Ref())
	g.changeRole(p, &reg)
}

// Evicted says that the classic fetcher has let go of a partition at the seal. It takes
// neither the lock of the role nor that of the log, so a fetcher may call it while a change
// of role waits for that fetcher.
func (g *Gate) Evicted(ref ops.LogRef) {
	g.deletions.add(ref)
	g.revisits.add(ref)
}

// revisitRoles takes roles anew where a fetcher has let go, until the gate is closed: there
// consolidation may begin. It is a goroutine of its own because it waits for locks of roles.
func (g *Gate) revisitRoles() {
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.revisits.kick:
			g.revisitPass()
		}
	}
}

func (g *Gate) revisitPass() {
	for _, ref := range g.revisits.take() {
		if p, err := g.find(ref); err == nil {
			g.changeRole(p, nil)
		}
	}
}

// LeavesClassic says whether the classic fetcher is to let go of a partition, after which it
// calls Evicted: it is at the seal, and the ISR counts on it or needs it no more.
func (g *Gate) LeavesClassic(ref ops.LogRef) bool {
	p, err := g.find(ref)
	if err != nil {
		return true
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.reg == nil || p.log == nil || p.leavesClassic(g.config.BrokerID)
}

// changeRole takes the role that reg gives this broker; nil: the present one once more.
func (g *Gate) changeRole(p *partition, reg *Registration) {
	if err := g.changeRoleLocked(p, reg); err != nil {
		g.deps.Failures.LogDirFailed(p.ref, err)
	}
	p.changed.announce()
	if s := p.state.Load(); s != nil && *s == ops.StatePrefixInRemoteStorage {
		g.deletions.add(p.ref)
	}
	g.hurry()
}

func (g *Gate) changeRoleLocked(p *partition, reg *Registration) error {
	p.role.Lock()
	defer p.role.Unlock()
	fetch, err := p.take(reg, g.config.BrokerID, g.clock.Now())
	if fetch != nil {
		g.carryOut(p.ref, fetch)
	}
	return err
}

// fetching is what the fetchers are to do for a partition.
type fetching struct {
	classic, consolidation, rebuild bool
	leader, epoch                   int32
}

func (g *Gate) carryOut(ref ops.LogRef, f *fetching) {
	if !f.classic {
		g.deps.Fetchers.StopClassic(ref)
	}
	if f.consolidation {
		g.deps.Fetchers.StartConsolidation(ref, f.rebuild)
	} else {
		g.deps.Fetchers.StopConsolidation(ref)
	}
	if f.classic {
		g.deps.Fetchers.StartClassic(ref, f.leader, f.epoch)
	}
}

// take makes the log ready for the role, and only then takes it: appends and reads wait
// meanwhile. nil is returned where nothing is to be fetched differently.
func (p *partition) take(reg *Registration, me int32, now time.Time) (*fetching, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case reg == nil && p.reg == nil:
		return nil, nil
	case reg == nil:
		reg = p.reg
	case p.reg != nil && !reg.follows(p.reg):
		return nil, nil
	}
	defer p.measure()
	if p.log == nil {
		p.reg = reg
		return nil, nil
	}
	err := p.prepare(reg, reg.Leader == me)
	switch {
	case p.reg == nil || p.reg.LeaderEpoch != reg.LeaderEpoch:
		p.progress.reset(p.log.EndOffset(), now)
	case p.reg.PartitionEpoch != reg.PartitionEpoch:
		p.progress.settle()
	}
	p.reg = reg
	if err == nil {
		err = p.advance(me) // what is committed depends on who is in the ISR
	}
	p.offline = ""
	switch {
	case err != nil:
		p.offline = "its log directory failed: " + err.Error()
	case reg.Leader == me:
		p.offline = reg.cannotLead(p.log.EndOffset())
	}
	return p.fetching(me), err
}

// prepare brings the local log to where the registration wants it.
func (p *partition) prepare(reg *Registration, leads bool) error {
	if reg.State == ops.StateClassic {
		return p.log.Unseal()
	}
	if err := p.log.Seal(); err != nil {
		return err
	}
	if reg.Sealed() {
		if err := p.cutAtSeal(reg, leads); err != nil {
			return err
		}
	}
	// Only closed segments are tiered: without the first, the tail of an idle topic never is.
	if leads && reg.State.ClassicPrefixOnlyOnLocalDisks() || reg.wouldConsolidateBehindPrefix(p.log) {
		return p.log.Roll()
	}
	return nil
}

// wouldConsolidateBehindPrefix says whether the first consolidated record would come into the
// segment with the end of the prefix, and keep that from being deleted.
func (r *Registration) wouldConsolidateBehindPrefix(log LocalLog) bool {
	segments := log.Segments()
	active := segments[len(segments)-1]
	return r.State == ops.StatePrefixInRemoteStorage && active.End == r.Seal() && active.Base < active.End
}

// cutAtSeal removes what the log has at or above the seal of classic records: they were
// never committed. What consolidation wrote there stays, since the control plane may have
// pruned it already.
func (p *partition) cutAtSeal(reg *Registration, leads bool) error {
	if p.log.EndOffset() > reg.Seal() {
		consolidated, err := consolidatedFrom(p.log, reg)
		if err == nil && !consolidated {
			err = p.truncate(reg.Seal())
		}
		if err != nil {
			return err
		}
	}
	if leads && p.log.EndOffset() >= reg.Seal() && p.log.HighWatermark() < reg.Seal() {
		// All of the ISR had the prefix when the seal was committed.
		return p.log.SetHighWatermark(reg.Seal())
	}
	return nil
}

// truncate cuts the log, and with it a copy under way. The caller holds mu alone.
func (p *partition) truncate(offset int64) error {
	if p.future != nil {
		if err := p.future.Truncate(offset); err != nil {
			return err
		}
	}
	return p.log.Truncate(offset)
}

// consolidatedFrom says whether all that the log holds from the seal on, or from where the log
// begins if that is later, was consolidated: every epoch range there is the epoch of that, and
// the first record is none of a producer. The epoch does not tell where an operator has sealed
// a partition that was classic: its leader wrote in the very epoch that the seal then has.
func consolidatedFrom(log LocalLog, reg *Registration) (bool, error) {
	from := max(reg.Seal(), log.LocalLogStartOffset())
	if !inEpochFrom(log.Epochs(), from, reg.consolidationEpoch()) {
		return false, nil
	}
	first, err := log.Read(from, log.EndOffset(), 1)
	return len(first) == 0 || first[0].Kind == Consolidated, err
}

// inEpochFrom says whether an offset and all behind it are of one epoch.
func inEpochFrom(epochs []EpochStart, offset int64, epoch int32) bool {
	covered := false
	for i, e := range epochs {
		if i+1 < len(epochs) && epochs[i+1].Start <= offset {
			continue // ends before
		}
		if e.Epoch != epoch {
			return false
		}
		covered = covered || e.Start <= offset
	}
	return covered
}

// cannotLead says why a leader whose log ends at end cannot serve the partition, or "".
func (r *Registration) cannotLead(end int64) string {
	switch {
	case !r.Sealed() || end >= r.Seal():
		return ""
	case r.State.ClassicPrefixWaitingForUpload():
		return fmt.Sprintf("this leader's log ends at %d, below the seal %d, and the prefix is only on local disks: "+
			"move leadership to a replica that holds the prefix", end, r.Seal())
	case !ops.ConsolidationEnabledFor(r.TopicConfig):
		return fmt.Sprintf("this leader's log ends at %d, below the seal %d, and remote storage is off for the topic: "+
			"it cannot rebuild the log", end, r.Seal())
	}
	return ""
}

// leavesClassic: at the seal a follower has all that the classic fetcher can bring. While
// the prefix is only on local disks it goes on fetching until it is in the ISR, since it is
// the fetch at the seal that brings it there. The caller holds mu.
func (p *partition) leavesClassic(me int32) bool {
	r := p.reg
	return r.State == ops.StateBornDiskless || r.Sealed() && p.log.EndOffset() >= r.Seal() && (r.State == ops.StatePrefixInRemoteStorage || r.inSync(me))
}

// fetching says what is to be fetched in the present role. The caller holds mu.
func (p *partition) fetching(me int32) *fetching {
	r, leads := p.reg, p.reg.Leader == me
	short := p.log.EndOffset() < r.Seal()
	online := p.offline == ""
	return &fetching{
		leader: r.Leader, epoch: r.LeaderEpoch,
		classic:       online && !leads && r.Leader >= 0 && !p.leavesClassic(me),
		consolidation: online && r.ConsolidationActive() && (!short || leads),
		rebuild:       short && leads,
	}
}
