package model

import (
	"encoding/json"
	"maps"
	"slices"
)

// Config holds the settings that change answers. Times are milliseconds.
type Config struct {
	Coalesce                bool  // join touching batches of a commit into one row
	ReplayRetentionMs       int64 // how long a retried commit gets its original answer
	ForgottenKeyRetentionMs int64 // how long delete-files fences a key
	ObjectFenceRetentionMs  int64 // how long is-safe-to-delete-file fences a key
	MaxAnswerRows           int   // rows of one answer, over all its items
	MaxPartitionsPerTopic   int   // partitions are below it
	MaxObjectKeyBytes       int
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		Coalesce:                true,
		ReplayRetentionMs:       86_400_000,
		ForgottenKeyRetentionMs: 600_000,
		ObjectFenceRetentionMs:  604_800_000,
		MaxAnswerRows:           100_000,
		MaxPartitionsPerTopic:   10_000,
		MaxObjectKeyBytes:       1024,
	}
}

// Model is the whole state of a control plane. It is not safe for concurrent use.
type Model struct {
	cfg         Config
	lastClockMs int64
	topics      map[topicID]*topic
	files       []*file          // in order of file id, without the forgotten ones
	fences      map[string]int64 // object key -> fenced until, exclusive
	nextFileID  int64
	nextBatchID int64
	brokers     map[int32]*broker
	lastEpoch   int64 // of brokers

	now     int64 // clock of the operation under way
	changed bool  // whether the operation under way changed anything
	marks   map[marked]mark
	broken  error // the first step back that marks showed
}

// live is the deletedAt of what is not deleted, none any other absent number.
const (
	live = -1
	none = -1
)

type topic struct {
	id        topicID
	name      string
	origin    string
	deletedAt int64
	config    map[string]string
	logs      map[partition]*log
	parts     map[partition]*registration
}

type logKey struct {
	id        topicID
	partition partition
}

type log struct {
	start, highWatermark, disklessStart int64
	remoteStart                         int64 // none until reported
	batches                             []batch
	producers                           map[int64]*producer
}

type batch struct {
	id, fileID               int64
	byteOffset, byteSize     int64
	baseOffset, lastOffset   int64
	magic, timestampType     int8
	appendTimestamp, maxTime int64
}

// timestamp is what searches and retention go by.
func (b batch) timestamp() int64 {
	if b.timestampType == 1 || b.maxTime == -1 {
		return b.appendTimestamp
	}
	return b.maxTime
}

type producer struct {
	epoch     int16
	entries   []sequence // oldest first
	updatedAt int64
}

// maxSequences is how many batches of a producer a retry is recognised for.
const maxSequences = 5

type sequence struct {
	base, last           int32
	assigned, maxTimeSet int64 // maxTimeSet: batch_max_timestamp as it was sent
}

type file struct {
	id          int64
	key         string
	format      int64
	uploader    int32
	size        int64
	committedAt int64
	markedAt    int64 // live: referred to by a batch
	replay      *replay
}

// replay answers a retry; nil once expired rows were removed.
type replay struct {
	request commitRequest
	answer  commitAnswer
}

// New returns an empty model.
func New(cfg Config) *Model {
	return &Model{
		cfg:     cfg,
		topics:  map[topicID]*topic{},
		fences:  map[string]int64{},
		brokers: map[int32]*broker{},
		marks:   map[marked]mark{},
	}
}

// Do carries out one operation at clock nowMs (Unix milliseconds). The request is the JSON of the wire format; fields
// that have a default may be left out. It returns either the response, to be marshalled to JSON, or the code of the
// error object, for which nothing has changed.
func (m *Model) Do(op string, nowMs int64, request []byte) (response any, errCode string) {
	run, ok := operations[op]
	if !ok {
		return nil, "UNKNOWN_OPERATION"
	}
	m.now, m.changed = max(nowMs, m.lastClockMs), false
	response, errCode = run(m, request)
	if m.changed {
		m.lastClockMs = m.now
		m.watch()
	}
	return response, errCode
}

var operations = map[string]func(*Model, []byte) (any, string){
	"create-topics":                   decoded((*Model).createTopics),
	"delete-topics":                   decoded((*Model).deleteTopics),
	"list-topics":                     decoded((*Model).listTopics),
	"describe-topic":                  decoded((*Model).describeTopic),
	"commit-file":                     decoded((*Model).commitFile),
	"find-batches":                    decoded((*Model).findBatches),
	"list-offsets":                    decoded((*Model).listOffsets),
	"get-log-info":                    decoded((*Model).getLogInfo),
	"get-producer-state":              decoded((*Model).getProducerState),
	"get-cross-tier-log-start":        decoded((*Model).getCrossTierLogStart),
	"delete-records":                  decoded((*Model).deleteRecords),
	"prune-diskless-logs":             decoded((*Model).pruneDisklessLogs),
	"enforce-retention":               decoded((*Model).enforceRetention),
	"purge-deleted-logs":              decoded((*Model).purgeDeletedLogs),
	"get-files-to-delete":             decoded((*Model).getFilesToDelete),
	"delete-files":                    decoded((*Model).deleteFiles),
	"is-safe-to-delete-file":          decoded((*Model).isSafeToDeleteFile),
	"list-files":                      decoded((*Model).listFiles),
	"advance-cross-tier-log-start":    decoded((*Model).advanceCrossTierLogStart),
	"init-diskless-log":               decoded((*Model).initDisklessLog),
	"repair-diskless-log":             decoded((*Model).repairDisklessLog),
	"register-broker":                 decoded((*Model).registerBroker),
	"broker-heartbeat":                decoded((*Model).brokerHeartbeat),
	"fence-broker":                    decoded((*Model).fenceBroker),
	"unfence-broker":                  decoded((*Model).unfenceBroker),
	"register-partitions":             decoded((*Model).registerPartitions),
	"alter-partition":                 decoded((*Model).alterPartition),
	"elect-leader":                    decoded((*Model).electLeader),
	"begin-switch":                    decoded((*Model).beginSwitch),
	"commit-seal":                     decoded((*Model).commitSeal),
	"commit-prefix-in-remote-storage": decoded((*Model).commitPrefix),
	"override-switch":                 decoded((*Model).overrideSwitch),
	"describe-partitions":             decoded((*Model).describePartitions),
	"expire-producers":                decoded((*Model).expireProducers),
	"expire-fences":                   decoded((*Model).expireFences),
	"expire-replays":                  decoded((*Model).expireReplays),
}

func decoded[R any](run func(*Model, R) (any, string)) func(*Model, []byte) (any, string) {
	return func(m *Model, body []byte) (any, string) {
		var request R
		if json.Unmarshal(body, &request) != nil {
			return nil, invalidRequest
		}
		return run(m, request)
	}
}

// log returns a log that is there and not soft-deleted, or nil.
func (m *Model) log(at target) *log {
	t := m.topics[at.TopicID]
	if t == nil || t.deletedAt != live {
		return nil
	}
	return t.logs[at.Partition]
}

// topicNamed returns the live topic of that name, or nil.
func (m *Model) topicNamed(name string) *topic {
	for _, t := range m.topics {
		if t.name == name && t.deletedAt == live {
			return t
		}
	}
	return nil
}

func (m *Model) file(key string) *file {
	for _, f := range m.files {
		if f.key == key {
			return f
		}
	}
	return nil
}

func (m *Model) fileByID(id int64) *file {
	i := slices.IndexFunc(m.files, func(f *file) bool { return f.id == id })
	return m.files[i]
}

func (l *log) byteSize() int64 {
	var size int64
	for _, b := range l.batches {
		size += b.byteSize
	}
	return size
}

// references counts the batches of each file.
func (m *Model) references() map[int64]int64 {
	count := map[int64]int64{}
	for _, t := range m.topics {
		for _, l := range t.logs {
			for _, b := range l.batches {
				count[b.fileID]++
			}
		}
	}
	return count
}

// markFiles marks the files that no batch refers to any more, or ever did, and returns how many those were.
func (m *Model) markFiles() int64 {
	var marked int64
	count := m.references()
	for _, f := range m.files {
		if f.markedAt == live && count[f.id] == 0 {
			f.markedAt = m.now
			marked++
		}
	}
	return marked
}

// Clone returns an independent copy.
func (m *Model) Clone() *Model {
	c := *m
	c.fences, c.marks = maps.Clone(m.fences), maps.Clone(m.marks)
	c.topics, c.brokers = map[topicID]*topic{}, map[int32]*broker{}
	for id, b := range m.brokers {
		copied := *b
		c.brokers[id] = &copied
	}
	for id, t := range m.topics {
		c.topics[id] = t.clone()
	}
	c.files = make([]*file, len(m.files))
	for i, f := range m.files {
		copied := *f // what a replay holds is never written to
		c.files[i] = &copied
	}
	return &c
}

func (t *topic) clone() *topic {
	c := *t
	c.config, c.logs, c.parts = maps.Clone(t.config), map[partition]*log{}, map[partition]*registration{}
	for p, r := range t.parts {
		copied := *r // lists are never changed in place
		c.parts[p] = &copied
	}
	for p, l := range t.logs {
		copied := *l
		copied.batches, copied.producers = slices.Clone(l.batches), map[int64]*producer{}
		for id, state := range l.producers {
			copied.producers[id] = &producer{state.epoch, slices.Clone(state.entries), state.updatedAt}
		}
		c.logs[p] = &copied
	}
	return &c
}

// ClockMs returns the clock of the last operation that changed something.
func (m *Model) ClockMs() int64 { return m.lastClockMs }
