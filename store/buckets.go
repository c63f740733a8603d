package store

// bucket names one bbolt bucket. The number is what the digest mixes into the
// hash of a row, so numbers are append-only: a retired one stays reserved.
type bucket uint8

const (
	bucketMeta          bucket = 0  // metaKey -> Meta
	bucketTopics        bucket = 1  // topic id -> Topic
	bucketTopicNames    bucket = 2  // name -> topic id; live topics only
	bucketLogs          bucket = 3  // topic id, partition -> Log
	bucketDeletedLogs   bucket = 4  // deleted_at, topic id, partition -> nothing
	bucketBatches       bucket = 5  // log id, base offset of the block -> block of batches
	bucketBatchTimes    bucket = 6  // log id, level, group -> largest batch timestamp, base offset
	bucketFiles         bucket = 7  // file id -> File
	bucketFileKeys      bucket = 8  // object key -> file id
	bucketDeletingFiles bucket = 9  // marked_for_deletion_at, file id -> nothing
	bucketReplays       bucket = 10 // file id -> Replay
	bucketProducers     bucket = 11 // log id, producer id -> Producer
	bucketFences        bucket = 12 // object key -> fenced_until
	bucketFenceTimes    bucket = 13 // fenced_until, object key -> nothing
	bucketBrokers       bucket = 14 // broker id -> Broker
	bucketRegistrations bucket = 15 // topic id, partition -> Registration
	bucketReplicas      bucket = 16 // broker id, topic id, partition -> whether it is in the ISR
	bucketSealProducers bucket = 17 // topic id, partition -> producers that the seal came with
	bucketEvents        bucket = 18 // index of a log entry -> Event
	bucketCount                = 19
)

// bucketTable is the only place where bucket names are spelled.
//
// logical marks the buckets whose rows make up the digest; the others are
// indexes, derived from them and recounted by Check, and events, which only tell
// how the others came about. fill is how full a page is
// left when it splits: whole where keys are only ever added at the end, bbolt's
// half (0) where they come in any order, and between for batches, which come at
// the end of each log (measured, see DESIGN.md). late marks the buckets that a file
// has only once they have a row: releases that do not know them read the others'.
var bucketTable = [bucketCount]struct {
	name    string
	logical bool
	fill    float64
	late    bool
}{
	bucketMeta:          {name: "meta"},
	bucketTopics:        {name: "topics", logical: true},
	bucketTopicNames:    {name: "topic_names"},
	bucketLogs:          {name: "logs", logical: true},
	bucketDeletedLogs:   {name: "deleted_logs"},
	bucketBatches:       {name: "batches", logical: true, fill: 0.75},
	bucketBatchTimes:    {name: "batch_times"},
	bucketFiles:         {name: "files", logical: true, fill: 1},
	bucketFileKeys:      {name: "file_keys"},
	bucketDeletingFiles: {name: "deleting_files", fill: 1},
	bucketReplays:       {name: "replays", logical: true, fill: 1},
	bucketProducers:     {name: "producers", logical: true},
	bucketFences:        {name: "fences", logical: true},
	bucketFenceTimes:    {name: "fence_times", fill: 1},
	bucketBrokers:       {name: "brokers", logical: true, late: true},
	bucketRegistrations: {name: "registrations", logical: true, late: true},
	bucketReplicas:      {name: "replicas", late: true},
	bucketSealProducers: {name: "seal_producers", logical: true, late: true},
	bucketEvents:        {name: "events", fill: 1, late: true},
}

// metaKey is the one key of bucketMeta.
var metaKey = []byte("state")

func (b bucket) String() string { return bucketTable[b].name }
