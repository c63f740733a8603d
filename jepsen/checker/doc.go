// Package checker judges a run by its directory alone: the recorded history, the
// faults, and the data directories of the stopped nodes.
//
// First come checks whose time is linear in the history, which name what is wrong by
// the lines of the history: offsets, acknowledged commits, log starts, reads that are
// too old. Then each partition by itself is checked for linearizability; that the
// partitions' histories together are linearizable follows, since they share nothing.
// What could not be decided in time is said to be unknown, and is no success.
package checker
