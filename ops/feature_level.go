package ops

import "fmt"

// FeatureLevel is the highest level that this release supports. The level of a
// cluster is in its state: it says which operations may be logged, and is raised
// by raise-feature-level once every member's release supports it; a new cluster begins
// at that of its release. Level 2 brought brokers, partition registrations and the switch.
const FeatureLevel = 2

// Supported is nil for a level of the state that this release can go on from; the
// error says what to do about another.
func Supported(level uint64) error {
	if level > FeatureLevel {
		return fmt.Errorf("the cluster is at feature level %d, this release supports %d: run a newer release on this node", level, FeatureLevel)
	}
	return nil
}
