package switchover

import "github.com/cpnode/cpnode/ops"

// deletePrefixes deletes what is queued, until the gate is closed. It takes no lock of a
// role, so it waits for no fetcher and holds none up.
func (g *Gate) deletePrefixes() {
	ticker := g.clock.NewTicker(g.config.Interval)
	defer ticker.Stop()
	for {
		g.deletePass()
		select {
		case <-g.ctx.Done():
			return
		case <-g.deletions.kick:
		case <-ticker.Chan():
			g.deletions.wake()
		}
	}
}

// deletePass tries each partition that is queued once.
func (g *Gate) deletePass() {
	for _, ref := range g.deletions.take() {
		if g.ctx.Err() != nil {
			return
		}
		p, err := g.find(ref)
		if err != nil {
			continue
		}
		again, err := g.deletePrefix(p)
		switch {
		case err != nil: // whoever handles it decides what becomes of the disk, and of the partition
			g.logger.Error("deleting the classic prefix failed", "topic", ref.TopicID.String(), "partition", ref.Partition, "error", err)
			g.deps.Failures.LogDirFailed(ref, err)
		case again:
			g.deletions.retry(ref)
		}
	}
}

// deletePrefix deletes the local segments of the prefix that this broker knows to be in
// remote storage. again: others are left, which are not known to be there yet.
func (g *Gate) deletePrefix(p *partition) (again bool, err error) {
	highest, copying := g.deps.Remote.HighestOffset(p.ref), g.deps.Remote.Copying(p.ref)
	at(g.hooks.deleting)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || p.reg == nil || p.reg.State != ops.StatePrefixInRemoteStorage {
		return false, nil
	}
	defer p.measure()
	seal := p.reg.Seal()
	if p.keepsPrefix(copying) {
		g.warnKept(p)
		return holdsPrefix(p.log, seal), nil
	}
	p.kept = false
	if err := deleteCovered(p.log, seal, highest); err != nil {
		return false, err
	}
	if spansSeal(p.log, seal) {
		g.warnSpans(p)
		return false, nil
	}
	return holdsPrefix(p.log, seal), nil
}

// keepsPrefix says whether no local segment of the prefix may go: remote storage is off for the
// topic, or copying to it is for this broker.
func (p *partition) keepsPrefix(copying bool) bool {
	return !copying || !ops.ConsolidationEnabledFor(p.reg.TopicConfig)
}

// deleteCovered deletes each segment that lies wholly below the seal and is covered by the
// highest remote offset. The active segment cannot be deleted, so one that holds the end of
// the prefix is closed first.
func deleteCovered(log LocalLog, seal, highest int64) error {
	segments := log.Segments()
	if active := segments[len(segments)-1]; active.Base < seal && active.Base < active.End {
		if err := log.Roll(); err != nil {
			return err
		}
	}
	return log.DeleteBelow(min(seal, highest+1))
}

// holdsPrefix says whether a log holds any record below the seal.
func holdsPrefix(log LocalLog, seal int64) bool {
	for _, s := range log.Segments() {
		if s.Base < seal && s.Base < s.End {
			return true
		}
	}
	return false
}

// spansSeal says whether all that a log holds below the seal is in the segment that goes on
// above it: nothing is left that can be deleted.
func spansSeal(log LocalLog, seal int64) bool {
	for _, s := range log.Segments() {
		if s.Base < s.End {
			return s.Base < seal && s.End > seal
		}
	}
	return false
}

// warnKept and warnSpans log once that a prefix stays, until that has changed.
func (g *Gate) warnKept(p *partition) {
	if !p.kept && holdsPrefix(p.log, p.reg.Seal()) {
		g.logger.Warn("the local classic prefix is kept: remote storage is off, or copying to it is",
			"topic", p.ref.TopicID.String(), "partition", p.ref.Partition)
	}
	p.kept = true
}

func (g *Gate) warnSpans(p *partition) {
	if !p.spans {
		g.logger.Warn("a local segment that spans the seal is left to retention; it is not read below the seal",
			"topic", p.ref.TopicID.String(), "partition", p.ref.Partition)
	}
	p.spans = true
}
