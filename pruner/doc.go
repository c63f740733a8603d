// Package pruner holds the workers that shorten logs and forget what is no longer
// needed, and the one that reports how far tiered storage has moved:
//
//   - [ConsolidationPruner] removes batches that tiered storage holds,
//   - [RetentionEnforcer] removes batches by size and age,
//   - three [Expirer]s drop idle producers, old fences and old replays,
//   - [CrossTierReporter] reports the lowest offsets in tiered storage.
//
// All but the last run on the leader. Each has Run, which goes on until its context
// ends, and RunOnce, one cycle now, which may be called at any time and on any node:
// what a cycle does is one idempotent operation after the other, so two leaders in
// doubt, or a cycle that is cut short, do no harm. Where nothing is due nothing is
// proposed. A worker waits and reads the time by a given clock only.
package pruner
