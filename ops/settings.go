package ops

import "github.com/cpnode/cpnode/store"

// Limits bound requests and answers; each is a config key.
type Limits struct {
	Batches        int // of a commit
	Items          int // of a request
	Partitions     int // of a topic
	ObjectKey      int // bytes
	AnswerRows     int // of an answer, also where a limit of 0 means none
	EntryBytes     int // of an encoded log entry
	SealEntryBytes int // of one of commit-seal
	RequestBytes   int // of a request body
	ProducerRows   int // of an init-diskless-log item
	ListedMaximum  int // rows of a list that has a limit
}

// DefaultLimits are those of docs/operations.md.
func DefaultLimits() Limits {
	return Limits{
		Batches: 10_000, Items: 10_000, Partitions: 10_000, ObjectKey: 1024, AnswerRows: 100_000,
		EntryBytes: 1 << 20, SealEntryBytes: 8 << 20, RequestBytes: 8 << 20, ProducerRows: 10_000, ListedMaximum: 10_000,
	}
}

// MaxElements is how many elements any one list of a request may have, of whatever kind:
// with more it need not be decoded. Validate bounds each list for itself.
func (l Limits) MaxElements(r Request) int {
	most := max(l.Items, l.Batches)
	if longer, ok := r.(interface{ maxElements(l Limits) int }); ok {
		return max(most, longer.maxElements(l))
	}
	return most
}

// Settings are what of the node's configuration goes into log entries, so that
// all nodes apply them alike, whatever their own configuration says.
type Settings struct {
	Limits                  Limits
	Coalesce                bool
	ReplayRetentionMs       int64
	ForgottenKeyRetentionMs int64
	ObjectFenceRetentionMs  int64
	// Rows (batches, producer states and logs removed or rewritten) that one
	// entry may take, so that none stalls commits.
	PurgeRows         int64
	PruneRows         int64
	RetentionRows     int64
	DeleteRecordsRows int64
	ExpireRows        int64
	// ItemRows bounds the entries of operations over many logs or files:
	// advance-cross-tier-log-start, init-diskless-log, repair-diskless-log and
	// delete-files.
	ItemRows int64
	// BrokerRows bounds the entries of fence-broker, unfence-broker, register-broker
	// and broker-heartbeat in partitions.
	BrokerRows int64
	// EventHistory is how many events the state keeps for watchers.
	EventHistory int64
	// BrokerSessionMs is after how long a silent broker is fenced.
	BrokerSessionMs int64
}

// DefaultSettings are those of docs/configuration.md.
func DefaultSettings() Settings {
	return Settings{
		Limits: DefaultLimits(), Coalesce: true,
		ReplayRetentionMs: 86_400_000, ForgottenKeyRetentionMs: 600_000, ObjectFenceRetentionMs: 604_800_000,
		PurgeRows: 250, PruneRows: 250, RetentionRows: 250, DeleteRecordsRows: 250, ExpireRows: 250, ItemRows: 500,
		BrokerRows: 250, BrokerSessionMs: 9000, EventHistory: store.DefaultEventHistory,
	}
}
