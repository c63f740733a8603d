package ops

import "github.com/cpnode/cpnode/store"

// PartitionState names where the complete classic prefix of a registered partition is.
type PartitionState string

// The states, in the order of a switch. A partition never goes back from one in which
// only the remote copy of its prefix is trusted.
const (
	StateClassic                PartitionState = "CLASSIC"                   // on local disks
	StateSwitchPending          PartitionState = "SWITCH_PENDING"            // only on local disks of the ISR; the seal is not known
	StatePrefixWaitingForUpload PartitionState = "PREFIX_WAITING_FOR_UPLOAD" // only on local disks of the ISR; sealed
	StatePrefixInRemoteStorage  PartitionState = "PREFIX_IN_REMOTE_STORAGE"
	StateBornDiskless           PartitionState = "BORN_DISKLESS" // there is none
)

// PartitionStates is the states by the Stage that stands for each in the state.
var PartitionStates = [store.Stages]PartitionState{
	store.StageClassic: StateClassic, store.StageSwitchPending: StateSwitchPending, store.StagePrefixWaitingForUpload: StatePrefixWaitingForUpload,
	store.StagePrefixInRemoteStorage: StatePrefixInRemoteStorage, store.StageBornDiskless: StateBornDiskless,
}

// stateOf is the state of a partition of a topic.
func stateOf(t *store.Topic, r *store.Registration) PartitionState {
	return PartitionStates[r.Stage(t.Origin)]
}

// ClassicPrefixOnlyOnLocalDisks says that a switch has begun and nothing but the local
// logs of the ISR holds the complete prefix.
func (s PartitionState) ClassicPrefixOnlyOnLocalDisks() bool {
	return s == StateSwitchPending || s == StatePrefixWaitingForUpload
}

// ClassicPrefixWaitingForUpload says that the prefix is sealed and not yet trusted to
// remote storage.
func (s PartitionState) ClassicPrefixWaitingForUpload() bool {
	return s == StatePrefixWaitingForUpload
}

// Diskless says that no local log is needed to read the partition: its ISR is every
// live replica.
func (s PartitionState) Diskless() bool {
	return s == StatePrefixInRemoteStorage || s == StateBornDiskless
}

// ClassicPrefixOffsetInRemoteStorage says that an offset is below the seal and that
// only the remote copy of it is trusted.
func (p *WatchedPartition) ClassicPrefixOffsetInRemoteStorage(offset int64) bool {
	return p.State == StatePrefixInRemoteStorage && offset < p.ClassicToDisklessStartOffset
}

// ConsolidationEnabledFor says whether the config of a topic lets its diskless records
// be consolidated in remote storage, once its partitions are in a state that does.
func ConsolidationEnabledFor(config map[string]string) bool {
	return config[keyRemoteStorageEnable] == "true"
}

// ConsolidationActiveFor says whether a partition's diskless records are consolidated
// in remote storage, given its state and its topic's config.
func ConsolidationActiveFor(state PartitionState, config map[string]string) bool {
	switch state {
	case StatePrefixInRemoteStorage:
		return true
	case StateBornDiskless:
		return ConsolidationEnabledFor(config)
	}
	return false
}
