package switchover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpnode/cpnode/ops"
)

// Consumer is the Replica of a ReadRequest that comes from no replica.
const Consumer int32 = -1

// ReadRequest asks for records of one partition.
type ReadRequest struct {
	Ref    ops.LogRef
	Offset int64
	// MaxBytes is the budget of payload. 0 or less: what earlier partitions of the same fetch
	// have left is used up, and the answer is empty. Else at least one batch is returned.
	MaxBytes int
	// A read that comes to the end of what may be read locally, and has found less than
	// MinBytes, waits up to MaxWait for more.
	MinBytes int
	MaxWait  time.Duration
	// Replica is the follower that fetches, in the incarnation and leader epoch that it knows;
	// for a Consumer the epochs are not looked at.
	Replica     int32
	BrokerEpoch int64
	LeaderEpoch int32
}

// Tier is the storage that served a read.
type Tier string

// The tiers.
const (
	TierNone     Tier = "" // there was nothing to read
	TierLocal    Tier = "local"
	TierRemote   Tier = "remote"
	TierDiskless Tier = "diskless"
)

// ReadResult is one answer, of one tier: a read that ends where a tier does is short, and
// the next one goes on in the other.
type ReadResult struct {
	Batches []Batch // the first owns the offset that was asked for
	Tier    Tier
	// HighWatermark is that of the tier: of the prefix of a sealed partition at most the seal.
	HighWatermark int64
	LogStart      int64 // 0 where this broker holds no log

	exhausted bool // a local log had no more
}

// Bytes are those of all payloads.
func (r *ReadResult) Bytes() int {
	n := 0
	for _, b := range r.Batches {
		n += len(b.Payload)
	}
	return n
}

// errPrefixElsewhere: the local log has, or had, a record that may not be read from it.
var errPrefixElsewhere = errors.New("switchover: the record is not to be read locally")

// Read is the one way to records, for consumers and for followers. Below the seal it returns
// classic records only. Once the prefix is in remote storage it comes from there and from
// nowhere else: ErrNotLeaderOrFollower says that this broker does not know yet where, or
// that a follower asked; then the deletion of the prefix is queued once more.
//
// Also ErrUnknownPartition, ErrOffline, ErrOffsetOutOfRange, ErrFencedLeaderEpoch (of a
// follower), ErrNotLocal (of a follower whose offset is only in remote storage), ErrClosed,
// and errors of ctx, of the tiers and of the disk.
func (g *Gate) Read(ctx context.Context, r ReadRequest) (ReadResult, error) {
	p, err := g.find(r.Ref)
	if err != nil {
		return ReadResult{}, err
	}
	if r.MaxBytes <= 0 {
		return ReadResult{}, nil
	}
	if r.MaxWait <= 0 || r.MinBytes <= 0 {
		return g.readOnce(ctx, p, &r)
	}
	return g.readParked(ctx, p, &r)
}

// readParked reads until there is enough or the time is over. Nothing that was read before a
// wait is returned after it: by then it may be the remote copy alone that counts.
func (g *Gate) readParked(ctx context.Context, p *partition, r *ReadRequest) (ReadResult, error) {
	timer := g.clock.NewTimer(r.MaxWait)
	defer timer.Stop()
	for {
		changed := p.changed.next()
		result, err := g.readOnce(ctx, p, r)
		if err != nil || !result.exhausted || result.Bytes() >= r.MinBytes {
			return result, err
		}
		over := false
		at(g.hooks.parked)
		select {
		case <-changed:
		case <-timer.Chan():
			over = true
		case <-g.ctx.Done():
			return ReadResult{}, ErrClosed
		case <-ctx.Done():
			return ReadResult{}, ctx.Err()
		}
		at(g.hooks.woken)
		if over {
			return g.readOnce(ctx, p, r)
		}
	}
}

// readOnce reads from the tier that has the offset now.
func (g *Gate) readOnce(ctx context.Context, p *partition, r *ReadRequest) (ReadResult, error) {
	remoteEnd := g.deps.Remote.HighestOffset(r.Ref) + 1
	result, reg, err := g.readLocal(p, r, remoteEnd)
	if errors.Is(err, errPrefixElsewhere) || r.Replica == Consumer && errors.Is(err, ErrNotLocal) {
		if result.Tier, err = reg.elsewhere(r, remoteEnd); err != nil {
			g.deletions.add(r.Ref)
		}
	}
	if err == nil && result.Tier == TierRemote {
		result, err = g.readRemote(ctx, r, reg, result)
	}
	if err != nil {
		return ReadResult{}, err
	}
	if result.Tier == TierDiskless {
		result.Batches, result.HighWatermark, err = g.deps.Diskless.Read(ctx, r.Ref, r.Offset, r.MaxBytes)
	}
	return result, err
}

// elsewhere is the tier that serves what may not be read locally, if there is one by now.
func (r *Registration) elsewhere(read *ReadRequest, remoteEnd int64) (Tier, error) {
	switch {
	case read.Replica != Consumer:
		return TierNone, ErrNotLeaderOrFollower
	case read.Offset < remoteEnd:
		return TierRemote, nil
	case r.ownedByDiskless(read.Offset):
		return TierDiskless, nil
	}
	return TierNone, ErrNotLeaderOrFollower
}

// readRemote fills result from remote storage. Below the seal nothing of what is above it is
// returned, though the budget may allow for it; and above it no classic record, which was
// uploaded before an operator has sealed the partition below: that offset is diskless storage's.
func (g *Gate) readRemote(ctx context.Context, r *ReadRequest, reg *Registration, result ReadResult) (ReadResult, error) {
	batches, err := g.deps.Remote.Read(ctx, r.Ref, r.Offset, r.MaxBytes)
	if err != nil {
		return ReadResult{}, err
	}
	if reg.ownedByDiskless(r.Offset) && len(batches) > 0 && batches[0].Kind == Classic {
		result.Tier = TierDiskless
		return result, nil
	}
	if reg.Sealed() && r.Offset < reg.Seal() {
		for i := range batches {
			if batches[i].BaseOffset >= reg.Seal() {
				batches = batches[:i]
				break
			}
		}
	}
	result.Tier, result.Batches = TierRemote, batches
	return result, nil
}

// readLocal decides where the records are and, if that is the local log, reads them: the
// decision, the read and the check of what it returned see one registration and one log,
// under the lock that a new role, the deletion of the prefix and the promotion of a future
// log take alone.
func (g *Gate) readLocal(p *partition, r *ReadRequest, remoteEnd int64) (ReadResult, *Registration, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.usable(); err != nil {
		return ReadResult{}, nil, err
	}
	result, limit, err := g.locate(p, r, remoteEnd)
	if err != nil || result.Tier != TierLocal {
		return result, p.reg, err
	}
	at(g.hooks.reading)
	if limit <= r.Offset {
		result.exhausted = true
		return result, p.reg, nil
	}
	result.Batches, err = p.log.Read(r.Offset, limit, r.MaxBytes)
	if err == nil {
		err = p.reg.mayReturn(result.Batches)
	}
	last := len(result.Batches) - 1
	result.exhausted = last < 0 || result.Batches[last].NextOffset() >= limit
	return result, p.reg, err
}

// mayReturn is errPrefixElsewhere if any of the records that a local log returned is one of
// which only the remote copy is trusted: also of a batch or a segment that spans the seal.
func (r *Registration) mayReturn(batches []Batch) error {
	for i := range batches {
		if r.ClassicPrefixOffsetInRemoteStorage(batches[i].BaseOffset) {
			return errPrefixElsewhere
		}
	}
	return nil
}

// locate says which tier has the offset, and up to where the local log may be read. remoteEnd
// is the first offset that this broker's metadata does not list. The caller holds mu of p.
func (g *Gate) locate(p *partition, r *ReadRequest, remoteEnd int64) (result ReadResult, limit int64, err error) {
	if p.log != nil {
		result.LogStart = p.log.LogStartOffset()
	}
	switch {
	case r.Offset < 0:
		return ReadResult{}, 0, fmt.Errorf("%w: %d is negative", ErrOffsetOutOfRange, r.Offset)
	case p.reg.ClassicPrefixOffsetInRemoteStorage(r.Offset):
		return p.locatePrefix(r, result)
	case r.Replica != Consumer:
		return g.locateForFollower(p, r, result)
	case p.reg.ownedByDiskless(r.Offset):
		return p.locateDiskless(r, remoteEnd, result)
	}
	return g.locateClassic(p, r, remoteEnd, result)
}

// locatePrefix: of a prefix in remote storage no local record is returned to anybody.
func (p *partition) locatePrefix(r *ReadRequest, result ReadResult) (ReadResult, int64, error) {
	if r.Offset < result.LogStart {
		return ReadResult{}, 0, outOfRange(r.Offset, result.LogStart, p.reg.Seal())
	}
	result.HighWatermark = p.reg.Seal()
	return result, 0, errPrefixElsewhere
}

// locateDiskless: what is at or above the seal was consolidated, or is in diskless storage.
func (p *partition) locateDiskless(r *ReadRequest, remoteEnd int64, result ReadResult) (ReadResult, int64, error) {
	switch {
	case p.log != nil && p.reg.ConsolidationActive() && p.log.LocalLogStartOffset() <= r.Offset && r.Offset < p.log.EndOffset():
		result.Tier, result.HighWatermark = TierLocal, p.log.EndOffset()
		return result, p.log.EndOffset(), nil
	case r.Offset < remoteEnd:
		result.Tier, result.HighWatermark = TierRemote, remoteEnd
		return result, 0, nil
	}
	result.Tier = TierDiskless
	return result, 0, nil
}

// locateClassic: the ISR serves consumers up to the high watermark, from local logs, and
// from remote storage what they hold no more.
func (g *Gate) locateClassic(p *partition, r *ReadRequest, remoteEnd int64, result ReadResult) (ReadResult, int64, error) {
	me := g.config.BrokerID
	if p.log == nil || !p.leads(me) && !p.reg.inSync(me) {
		return ReadResult{}, 0, ErrNotLeaderOrFollower
	}
	start, end := p.log.LocalLogStartOffset(), p.log.EndOffset()
	result.HighWatermark = p.highWatermark()
	switch {
	case r.Offset < result.LogStart || r.Offset > end:
		return ReadResult{}, 0, outOfRange(r.Offset, result.LogStart, end)
	case r.Offset >= start:
		result.Tier = TierLocal
		return result, result.HighWatermark, nil
	case r.Offset < remoteEnd:
		result.Tier = TierRemote
		return result, 0, nil
	}
	return ReadResult{}, 0, ErrNotLeaderOrFollower
}

// locateForFollower notes what the follower has, and lets it read to the end of the classic
// records. At the seal there is nothing more for it, and it is caught up.
func (g *Gate) locateForFollower(p *partition, r *ReadRequest, result ReadResult) (ReadResult, int64, error) {
	switch {
	case !p.leads(g.config.BrokerID) || p.reg.State == ops.StateBornDiskless:
		return ReadResult{}, 0, ErrNotLeaderOrFollower
	case r.LeaderEpoch != p.reg.LeaderEpoch:
		return ReadResult{}, 0, ErrFencedLeaderEpoch
	}
	end, atSeal := p.log.EndOffset(), p.reg.Sealed() && r.Offset == p.reg.Seal()
	if atSeal || p.reg.Sealed() && end > p.reg.Seal() {
		end = p.reg.Seal()
	}
	if r.Offset < result.LogStart || r.Offset > end {
		return ReadResult{}, 0, outOfRange(r.Offset, result.LogStart, end)
	}
	p.progress.fetched(r.Replica, r.BrokerEpoch, r.Offset, end, g.clock.Now())
	if err := g.advance(p); err != nil {
		return ReadResult{}, 0, err
	}
	result.Tier, result.HighWatermark = TierLocal, p.highWatermark()
	if atSeal {
		result.HighWatermark = end
	}
	return result, end, nil
}

// highWatermark of the classic records. The caller holds mu, and there is a log.
func (p *partition) highWatermark() int64 {
	if p.reg.Sealed() {
		return min(p.log.HighWatermark(), p.reg.Seal())
	}
	return p.log.HighWatermark()
}

func outOfRange(offset, start, end int64) error {
	return fmt.Errorf("%w: %d is not in [%d, %d]", ErrOffsetOutOfRange, offset, start, end)
}
