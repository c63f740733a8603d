package switchover

import (
	"context"
	"errors"

	"github.com/cpnode/cpnode/ops"
)

// Errors of a LocalLog, wrapped or not. Any other error of one is a storage error: the
// gate gives it to the LogDirFailureHandler.
var (
	// ErrSealed: the log takes no classic records from producers any more.
	ErrSealed = errors.New("switchover: the log is sealed")
	// ErrNotLocal: the offset is below the local log start, or its segment was deleted
	// while it was read.
	ErrNotLocal = errors.New("switchover: offset is not in the local log")
	// ErrBeyondEnd: the offset is above the end offset.
	ErrBeyondEnd = errors.New("switchover: offset is beyond the end of the log")
)

// Kind says what a batch was before it was written to a local log.
type Kind uint8

// The kinds are stored: their numbers never change.
const (
	Classic      Kind = 1 // produced to the local log of a leader, or fetched from one
	Consolidated Kind = 2 // copied from diskless storage, to be tiered
)

// Batch is a run of records that is written and read as one.
type Batch struct {
	BaseOffset  int64
	Records     int32 // at least 1; the batch owns the offsets [BaseOffset, NextOffset())
	LeaderEpoch int32
	Kind        Kind
	Payload     []byte // not to be changed
}

// NextOffset is the offset after the last record.
func (b *Batch) NextOffset() int64 { return b.BaseOffset + int64(b.Records) }

// EpochStart says that the records from Start on, up to the start of the next one, were
// written in a leader epoch.
type EpochStart struct {
	Epoch int32
	Start int64
}

// Segment is a file of a local log: the records [Base, End).
type Segment struct {
	Base, End int64
	Bytes     int64
}

// LocalLog is one replica of a partition on this broker's disk. Its methods may be called
// from any goroutine; while Roll, Truncate, RestartAt, DeleteBelow or Close run, the gate
// calls no other method that reads or writes records. No method calls the gate.
type LocalLog interface {
	// LogStartOffset is the first offset of the partition that still exists anywhere.
	LogStartOffset() int64
	// LocalLogStartOffset is the first offset that this log holds, >= LogStartOffset.
	LocalLogStartOffset() int64
	// EndOffset is the next offset to be appended.
	EndOffset() int64
	// HighWatermark is the offset below which consumers read. It never goes back but by Truncate.
	HighWatermark() int64
	// Epochs is the leader-epoch cache in offset order; it reaches back to LogStartOffset,
	// also where segments were deleted. The caller may keep it.
	Epochs() []EpochStart
	// Segments are the files in offset order. The last one is active: the only one that is
	// written to, and possibly empty (Base == End).
	Segments() []Segment

	// Read returns whole batches in order, the first being the one that owns offset. Only
	// batches with NextOffset() <= limit; of those at least one, and more while maxBytes of
	// payload allow and the segment goes on. None at or beyond limit or EndOffset.
	// ErrNotLocal, ErrBeyondEnd.
	Read(offset, limit int64, maxBytes int) ([]Batch, error)
	// Append is the leader's: it assigns the next offsets to a classic batch, and returns
	// the first of them. ErrSealed.
	Append(epoch, records int32, payload []byte) (base int64, err error)
	// AppendBatches takes batches that have offsets, the first at EndOffset: fetched from
	// the leader, or consolidated. A sealed log takes them too, since followers of a pending
	// switch keep fetching.
	AppendBatches(batches []Batch) error
	// SetHighWatermark raises the high watermark, to at most EndOffset; a lower one is ignored.
	SetHighWatermark(offset int64) error

	// SetLogStart raises LogStartOffset, and LocalLogStartOffset if that is below; a lower
	// offset is ignored. Nothing is deleted.
	SetLogStart(offset int64) error

	// Seal makes Append fail; Unseal lets it work again. Both may be repeated. A log is
	// opened unsealed: the gate seals it before the broker may lead.
	Seal() error
	Unseal() error
	// Roll begins a new active segment at EndOffset, synced up to there. An empty active
	// segment is left as it is.
	Roll() error
	// Truncate removes the records from offset on, and what the epoch cache says of them. A
	// batch that offset cuts goes whole. An offset at or above EndOffset changes nothing; one
	// below LocalLogStartOffset empties the log, which goes on at offset.
	Truncate(offset int64) error
	// RestartAt drops all local records: the log goes on at offset, with logStart and epochs
	// as they are elsewhere, less those that begin at offset or later. It is for a log that
	// cannot be filled up from its beginning.
	RestartAt(offset, logStart int64, epochs []EpochStart) error
	// DeleteBelow deletes every segment with End <= offset but the active one, without a look
	// at retention. LocalLogStartOffset advances, durably, before the first file vanishes;
	// LogStartOffset and the epoch cache stay. After an error it may be repeated.
	DeleteBelow(offset int64) error
	// Close syncs and closes the files. Closing again does nothing.
	Close() error
}

// RemoteLog is the tiered storage of classic prefixes and consolidated records, as this
// broker sees it. It is asked by offset alone, never by leader epoch: the epoch caches of
// replicas may differ where their records do not, and a prefix that was looked up by one
// of them could be neither deleted nor read.
type RemoteLog interface {
	// HighestOffset is the last offset that this broker's metadata lists without a gap from
	// the partition's first remote segment on; -1: none. It answers from memory. Brokers
	// upload in the order of offsets, so there is no gap before that segment either.
	HighestOffset(p ops.LogRef) int64
	// Copying says whether this broker has remote storage, and segments of the partition are
	// being copied to it.
	Copying(p ops.LogRef) bool
	// Read returns whole batches in order, the first being the one that owns offset; at
	// least one, and more while maxBytes of payload allow. An offset that is not listed is an
	// error.
	Read(ctx context.Context, p ops.LogRef, offset int64, maxBytes int) ([]Batch, error)
}

// DisklessLog is the part of a partition that diskless storage owns.
type DisklessLog interface {
	// Read returns whole batches in order from the one that owns offset on; none at the
	// high watermark, which it returns too.
	Read(ctx context.Context, p ops.LogRef, offset int64, maxBytes int) (batches []Batch, highWatermark int64, err error)
}

// Fetchers are the broker's tasks that fill local logs. Calls for one partition come one
// at a time, with the lock of its role held, and may be repeated: what runs as asked goes
// on undisturbed. A stop may wait for a fetch under way, because a fetch needs no lock of
// the role: it may call the methods of Gate that write and read, and LeavesClassic and Evicted.
type Fetchers interface {
	// StartClassic fetches from the leader, in that epoch, from the local end offset on.
	StartClassic(p ops.LogRef, leader, leaderEpoch int32)
	StopClassic(p ops.LogRef)
	// StartConsolidation copies what diskless storage owns to the local log from its end on.
	// With rebuild, that end is below the seal: the log is first restarted at the seal
	// (Gate.Rebuild), with what remote storage says of the prefix.
	StartConsolidation(p ops.LogRef, rebuild bool)
	StopConsolidation(p ops.LogRef)
}

// LogDirFailureHandler takes what a disk refused. It is called without any lock of the
// gate, from a goroutine of the gate or of the caller of Gate.Apply: never from a fetcher.
// What appends, reads and moves meet is returned to their caller.
type LogDirFailureHandler interface {
	LogDirFailed(p ops.LogRef, err error)
}

// Producers knows the idempotent producers of the partitions that this broker leads.
type Producers interface {
	// ActiveStates are the remembered batches up to the end of the local log, oldest first
	// for each producer: what the diskless log goes on from. An error keeps the seal from
	// being asked for, for now.
	ActiveStates(p ops.LogRef) ([]ops.ProducerState, error)
}
