package switchover

import (
	"slices"

	"github.com/cpnode/cpnode/ops"
	"github.com/cpnode/cpnode/store"
)

// Registration is what the control plane says of one partition, as its watch brings it, and
// the config of its topic. Where its prefix is, State says.
type Registration struct {
	ops.WatchedPartition
	TopicConfig map[string]string
}

// Ref names the partition.
func (r *Registration) Ref() ops.LogRef {
	return ops.LogRef{TopicID: r.TopicID, Partition: r.Partition}
}

// Seal is the first offset that diskless storage owns, negative while it is not known.
func (r *Registration) Seal() int64 { return r.ClassicToDisklessStartOffset }

// Sealed says whether the seal is committed.
func (r *Registration) Sealed() bool { return r.Seal() >= 0 }

// Pending says whether the log is to be sealed, at an offset that is not known yet.
func (r *Registration) Pending() bool { return r.Seal() == store.SwitchPending }

// ConsolidationActive says whether records of the partition are copied from diskless storage
// to local logs, to be tiered.
func (r *Registration) ConsolidationActive() bool {
	return ops.ConsolidationActiveFor(r.State, r.TopicConfig)
}

// ownedByDiskless says whether an offset is one that diskless storage gave out.
func (r *Registration) ownedByDiskless(offset int64) bool {
	return r.State == ops.StateBornDiskless || r.Sealed() && offset >= r.Seal()
}

// consolidationEpoch is the leader epoch of all consolidated records. No classic one has it,
// unless an operator has sealed the partition without a switch that was begun before.
func (r *Registration) consolidationEpoch() int32 { return max(r.DisklessLeaderEpoch, 0) }

// inSync says whether a broker may serve what only the ISR holds.
func (r *Registration) inSync(broker int32) bool { return slices.Contains(r.ISR, broker) }

// follows says whether the control plane said r after other, or the same once more.
func (r *Registration) follows(other *Registration) bool {
	return r.PartitionEpoch >= other.PartitionEpoch
}
