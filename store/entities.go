package store

// Field names follow the JSON names of docs/operations.md. Times are Unix
// milliseconds (UTC), sizes are bytes, offsets are Kafka record offsets.

// Absent is how an offset or time that is not set is written in a row.
const Absent int64 = -1

// Origin says how a topic first appeared; it never changes.
type Origin uint8

// Codes on disk are append-only.
const (
	OriginDiskless Origin = 1
	OriginClassic  Origin = 2
)

func (o Origin) String() string {
	if o == OriginClassic {
		return "classic"
	}
	return "diskless"
}

// Topic is what is known of one topic id. Deleted topics keep their row, without
// the right to their name, until the last of their logs is purged.
type Topic struct {
	Name      string
	Origin    Origin
	CreatedAt int64
	Deleted   bool
	DeletedAt int64             // when Deleted
	Logs      int64             // log rows, live or soft-deleted
	Config    map[string]string // never changed in place

	Registrations int64 // registration rows; 0 when Deleted
}

// LogKey names one partition of one topic.
type LogKey struct {
	Topic     TopicID
	Partition int32
}

// Log is one partition of a diskless topic.
type Log struct {
	ID                   uint64 // short internal id; keys of batches and producers begin with it
	LogStartOffset       int64
	HighWatermark        int64 // next offset to assign
	ByteSize             int64 // sum over the retained batches
	DisklessStartOffset  int64
	RemoteLogStartOffset int64 // Absent until reported
	Deleted              bool
	DeletedAt            int64 // when Deleted

	// EarliestBatchTimestamp is the batch timestamp of the oldest retained
	// batch; meaningful only while Batches() > 0.
	EarliestBatchTimestamp int64

	// Batches of a log are numbered from 0 as they are appended; FirstRow is
	// the number of the oldest retained one, NextRow that of the next.
	FirstRow, NextRow uint64
	// open is, per level of timestamp groups, the group that NextRow falls in.
	open [groupLevels]timeGroup
}

// Batches is how many batches the log retains.
func (l *Log) Batches() int64 { return int64(l.NextRow - l.FirstRow) }

// Batch is one retained record batch (or several, coalesced) in one object.
type Batch struct {
	ID                 uint64
	BaseOffset         int64
	LastOffset         int64
	FileID             uint64
	ByteOffset         int64
	ByteSize           int64
	Magic              int8
	TimestampType      int8 // 0 CreateTime, 1 LogAppendTime, -1 none
	LogAppendTimestamp int64
	BatchMaxTimestamp  int64
}

// TimestampTypeLogAppend is Kafka's code of LogAppendTime.
const TimestampTypeLogAppend = 1

// Timestamp is the time that retention and list-offsets go by: the broker's
// when the topic says LogAppendTime or the producer set none, else the producer's.
func (b *Batch) Timestamp() int64 {
	if b.TimestampType == TimestampTypeLogAppend || b.BatchMaxTimestamp == -1 {
		return b.LogAppendTimestamp
	}
	return b.BatchMaxTimestamp
}

// FileState says whether batches still refer to a file.
type FileState uint8

// Codes on disk are append-only.
const (
	FileUploaded FileState = 1
	FileDeleting FileState = 2
)

func (s FileState) String() string {
	if s == FileDeleting {
		return "deleting"
	}
	return "uploaded"
}

// FileReason says what made a file.
type FileReason uint8

// FileReasonProduce is a file that a broker committed with produced batches.
const FileReasonProduce FileReason = 1

func (r FileReason) String() string { return "produce" }

// File is one object in object storage.
type File struct {
	ID                  uint64
	ObjectKey           string
	Format              int64
	Reason              FileReason
	State               FileState
	UploaderBrokerID    int32
	CommittedAt         int64
	MarkedForDeletionAt int64 // when State is FileDeleting
	Size                int64
	BatchCount          int64 // batch rows that refer to it
}

// ReplayPartition is what a commit assigned in one distinct partition.
type ReplayPartition struct {
	FirstOffset    int64 // high watermark before the commit
	LogStartOffset int64
}

// Replay is what is needed to answer the identical commit again: the rest
// follows from the request itself.
type Replay struct {
	Digest     [16]byte // of the request
	ClockMs    int64
	Partitions []ReplayPartition // in order of first appearance in the request
	Outcomes   []byte            // one code a batch, owned by the operation; empty when all are alike
	Duplicates []ReplayDuplicate
}

// ReplayDuplicate is the stored answer to a batch that was a duplicate.
type ReplayDuplicate struct {
	Batch          int64 // index in the request
	AssignedOffset int64
	TimestampMs    int64
}

// ProducerEntry is one remembered batch of an idempotent producer.
type ProducerEntry struct {
	BaseSequence      int32
	LastSequence      int32
	AssignedOffset    int64
	BatchMaxTimestamp int64
}

// MaxProducerEntries is how many batches of a producer are remembered, as in
// Kafka's ProducerStateEntry.
const MaxProducerEntries = 5

// Producer is the state of one idempotent producer in one partition.
type Producer struct {
	Epoch     int16
	Count     int // entries in use
	Entries   [MaxProducerEntries]ProducerEntry
	UpdatedAt int64
}

// Remember adds e as the newest entry and forgets the oldest beyond five.
func (p *Producer) Remember(e ProducerEntry) {
	if p.Count == MaxProducerEntries {
		copy(p.Entries[:], p.Entries[1:])
		p.Count--
	}
	p.Entries[p.Count] = e
	p.Count++
}

// Recent is the remembered entries, oldest first.
func (p *Producer) Recent() []ProducerEntry { return p.Entries[:p.Count] }

// Totals counts rows, kept as they change, so that metrics cost nothing.
type Totals struct {
	Topics         int64 `json:"topics"` // live
	LiveLogs       int64 `json:"live_logs"`
	DeletedLogs    int64 `json:"deleted_logs"`
	Batches        int64 `json:"batches"`
	FilesUploaded  int64 `json:"files_uploaded"`
	FilesDeleting  int64 `json:"files_deleting"`
	Replays        int64 `json:"replays"`
	ProducerStates int64 `json:"producer_states"`
	Fences         int64 `json:"fences"`
	Brokers        int64 `json:"brokers"`
	Registrations  int64 `json:"registrations"`
	Leaderless     int64 `json:"leaderless"` // registrations without a leader
	// ByStage is the registrations of each Stage.
	ByStage [Stages]int64 `json:"registrations_by_stage"`
}

// Meta is the one row that every transaction rewrites.
type Meta struct {
	SchemaVersion uint64
	FeatureLevel  uint64
	AppliedIndex  uint64
	AppliedTerm   uint64
	LastClockMs   int64
	LastFileID    uint64
	LastBatchID   uint64
	LastLogID     uint64
	LastEpoch     uint64 // broker epoch given last
	ClusterID     [16]byte
	Digest        Digest
	Totals        Totals
	LastEventSeq  uint64 // number of the newest event
	EventsFrom    uint64 // every event above this index is there
	EventHistory  uint64 // events kept; 0 is DefaultEventHistory
}

// SchemaVersion is the layout that this package reads and writes.
const SchemaVersion = 1
