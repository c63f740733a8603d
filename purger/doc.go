// Package purger holds what takes away the remains of deleted data, and runs on the
// leader: the [TopicPurger] removes what soft-deleted logs hold, the [FileCleaner]
// deletes the objects of files that no batch refers to any more. [FindOrphans] compares
// the object store with the control plane, on request.
//
// Every step is an idempotent entry or a deletion that may be repeated, so two nodes
// that both take themselves for the leader do no harm. A worker keeps nothing from one
// cycle to the next but when to begin it.
package purger
