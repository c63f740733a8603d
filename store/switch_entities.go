package store

import "slices"

// Broker is one broker that has registered, under its latest epoch.
type Broker struct {
	Epoch         int64 // counts over the whole cluster
	IncarnationID string
	Rack          string
	Endpoints     []string // never changed in place
	Fenced        bool
	Walk          Walk // what is still to be done on its partitions
}

// WalkKind says what a walk over the partitions of a broker does to them.
type WalkKind uint8

// Codes on disk are append-only.
const (
	WalkNone    WalkKind = 0
	WalkFence   WalkKind = 1 // takes it out of ISRs that keep a live member
	WalkWipe    WalkKind = 2 // that, and out of the ISRs of all partitions that are not diskless
	WalkUnfence WalkKind = 3 // puts it back into the ISRs of diskless partitions
)

func (k WalkKind) String() string {
	return [...]string{"none", "fence", "wipe", "unfence"}[k]
}

// Walk is the durable cursor of a change that goes over several entries.
type Walk struct {
	Kind WalkKind
	Next LogKey // partitions from it on are still to be visited
}

// Values of Registration.ClassicToDisklessStartOffset besides the seal itself.
const (
	NoSwitch      int64 = -1
	SwitchPending int64 = -2
)

// NoLeader is the leader of a partition that has none.
const NoLeader int32 = -1

// Registration is a partition that brokers keep replicas of.
type Registration struct {
	Replicas       []int32 // in the order of preference; never changed in place
	ISR            []int32 // in the order of Replicas; never changed in place
	Leader         int32   // NoLeader, or a member of ISR
	LeaderEpoch    int32
	PartitionEpoch int32

	// ClassicToDisklessStartOffset is NoSwitch, SwitchPending or the seal: the
	// first offset that diskless storage owns.
	ClassicToDisklessStartOffset int64
	ClassicPrefixInRemoteStorage bool
	DisklessLeaderEpoch          int32 // leader epoch of the seal; -1 without
	SealedBy                     int32 // broker that sealed; -1 without, or when an operator did
}

// InISR says whether the broker is in the ISR.
func (r *Registration) InISR(broker int32) bool { return slices.Contains(r.ISR, broker) }

// SealProducer is one remembered batch of an idempotent producer, as a seal brought it.
type SealProducer struct {
	ProducerID int64
	Epoch      int16
	ProducerEntry
}

// Stage is how far a registered partition is in the switch of its topic.
type Stage int

// The stages, in the order of a switch; a topic that was born diskless has but one.
const (
	StageClassic Stage = iota
	StageSwitchPending
	StagePrefixWaitingForUpload
	StagePrefixInRemoteStorage
	StageBornDiskless
	Stages = iota // how many there are
)

// Stage is that of a partition whose topic is of this origin.
func (r *Registration) Stage(origin Origin) Stage {
	switch {
	case origin == OriginDiskless:
		return StageBornDiskless
	case r.ClassicToDisklessStartOffset == NoSwitch:
		return StageClassic
	case r.ClassicToDisklessStartOffset == SwitchPending:
		return StageSwitchPending
	case r.ClassicPrefixInRemoteStorage:
		return StagePrefixInRemoteStorage
	}
	return StagePrefixWaitingForUpload
}
