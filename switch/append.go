package switchover

import (
	"fmt"
	"slices"

	"github.com/cpnode/cpnode/ops"
)

// Append writes a batch of a producer to the local log of the leader, and returns the first
// of its offsets. It is committed when the high watermark has passed it. ErrSealed once the
// switch has begun, ErrNotLeaderOrFollower, ErrOffline, or a storage error.
func (g *Gate) Append(ref ops.LogRef, records int32, payload []byte) (base int64, err error) {
	err = g.write(ref, func(p *partition) error {
		if !p.leads(g.config.BrokerID) {
			return ErrNotLeaderOrFollower
		}
		if base, err = p.log.Append(p.reg.LeaderEpoch, records, payload); err != nil {
			return err
		}
		return g.advance(p)
	})
	return base, err
}

// AppendFetched writes what the classic fetcher has read from the leader in leaderEpoch, and
// raises the high watermark to the leader's. ErrFencedLeaderEpoch when the role has changed
// since the fetch began; ErrNotAboveSeal for records that the seal leaves to diskless storage.
func (g *Gate) AppendFetched(ref ops.LogRef, leaderEpoch int32, batches []Batch, highWatermark int64) error {
	return g.write(ref, func(p *partition) error {
		if p.leads(g.config.BrokerID) || p.reg.LeaderEpoch != leaderEpoch {
			return ErrFencedLeaderEpoch
		}
		if n := len(batches); n > 0 {
			if p.reg.Sealed() && batches[n-1].NextOffset() > p.reg.Seal() {
				return fmt.Errorf("%w: a classic batch ends at %d, the seal is %d", ErrNotAboveSeal, batches[n-1].NextOffset(), p.reg.Seal())
			}
			if err := p.log.AppendBatches(batches); err != nil {
				return err
			}
		}
		return p.log.SetHighWatermark(highWatermark)
	})
}

// AppendConsolidated writes diskless records to the local log, in the epoch that tells them
// from classic ones. ErrFencedLeaderEpoch when consolidation is not active, ErrNotAboveSeal
// for offsets that are not diskless storage's.
func (g *Gate) AppendConsolidated(ref ops.LogRef, batches []Batch) error {
	return g.write(ref, func(p *partition) error {
		if !p.reg.ConsolidationActive() {
			return ErrFencedLeaderEpoch
		}
		marked := slices.Clone(batches)
		for i := range marked {
			if marked[i].BaseOffset < p.reg.Seal() {
				return fmt.Errorf("%w: a diskless batch begins at %d, the seal is %d", ErrNotAboveSeal, marked[i].BaseOffset, p.reg.Seal())
			}
			marked[i].Kind, marked[i].LeaderEpoch = Consolidated, p.reg.consolidationEpoch()
		}
		if err := p.log.AppendBatches(marked); err != nil {
			return err
		}
		return p.log.SetHighWatermark(p.log.EndOffset())
	})
}

// WithLog calls fn with the log that this broker holds of the partition now, which no move
// and no deletion changes meanwhile: for retention and to find what is to be uploaded. What
// fn reads is for remote storage, never for a client or a follower. fn must not call the
// gate, and keeps role changes of the partition waiting.
func (g *Gate) WithLog(ref ops.LogRef, fn func(LocalLog) error) error {
	return g.write(ref, func(p *partition) error { return fn(p.log) })
}

// write runs fn with the lock of the log held shared: the role does not change meanwhile.
func (g *Gate) write(ref ops.LogRef, fn func(*partition) error) error {
	p, err := g.find(ref)
	if err != nil {
		return err
	}
	defer p.changed.announce()
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.usable(); err != nil {
		return err
	}
	if p.log == nil {
		return ErrNotLeaderOrFollower
	}
	return fn(p)
}

// advance raises the high watermark of a partition that this broker leads, and tells those
// that wait for it. The caller holds mu of p.
func (g *Gate) advance(p *partition) error {
	before := p.log.HighWatermark()
	if err := p.advance(g.config.BrokerID); err != nil {
		return err
	}
	if p.log.HighWatermark() == before {
		return nil
	}
	p.changed.announce()
	if p.reg.Pending() {
		g.hurry()
	}
	return nil
}

// TruncateFollower removes what a follower has from offset on, because the leader in
// leaderEpoch has something else there. ErrFencedLeaderEpoch as of AppendFetched.
func (g *Gate) TruncateFollower(ref ops.LogRef, leaderEpoch int32, offset int64) error {
	return g.alone(ref, func(p *partition) error {
		if p.leads(g.config.BrokerID) || p.reg.LeaderEpoch != leaderEpoch {
			return ErrFencedLeaderEpoch
		}
		return p.truncate(offset)
	})
}

// Rebuild restarts at the seal the log of a leader that is short of it while the prefix is in
// remote storage: logStart and epochs are what remote storage says of the prefix. It is the
// first step of a consolidation that was started with rebuild. Where there is nothing to
// rebuild, it changes nothing.
func (g *Gate) Rebuild(ref ops.LogRef, logStart int64, epochs []EpochStart) error {
	return g.alone(ref, func(p *partition) error {
		if p.reg.State != ops.StatePrefixInRemoteStorage || p.log.EndOffset() >= p.reg.Seal() {
			return nil
		}
		if err := p.log.RestartAt(p.reg.Seal(), logStart, epochs); err != nil {
			return err
		}
		return p.log.SetHighWatermark(p.reg.Seal())
	})
}

// alone runs fn with the lock of the log held alone.
func (g *Gate) alone(ref ops.LogRef, fn func(*partition) error) error {
	p, err := g.find(ref)
	if err != nil {
		return err
	}
	defer p.changed.announce()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	if p.log == nil {
		return ErrNotLeaderOrFollower
	}
	defer p.measure()
	return fn(p)
}
