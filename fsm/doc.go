// Package fsm applies committed log entries to the state.
//
// An [FSM] is raft's view of a [store.Store]. raft hands it entries in batches,
// in log order, from one goroutine; a batch is one transaction, which also
// records the index and term of its last entry. Entries at or below the recorded
// index are skipped, so that entries handed over twice (after a restart, or after
// a snapshot that is newer than it says) are applied once.
//
// An entry that cannot be carried out is never skipped: a skipped entry is a
// silently different replica. The FSM keeps the index and the reason, refuses
// everything after it, and tells its owner, who stops the node.
//
// Nothing here reads a clock, the environment or randomness.
package fsm
