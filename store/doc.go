// Package store is the replicated state on disk: one bbolt file that holds
// topics, logs, batches, files, producer states, replays, fences, brokers and
// partition registrations, with their indexes, and the index of the last log entry
// that was applied to it.
//
// A [Store] is opened on a path and read through [ReadTx] and changed through
// [WriteTx]. One WriteTx spans a whole batch of log entries: hot rows (logs, the
// last block of batches of a log, files, producers) are staged in memory and
// written once, in key order, when it commits, together with the applied index,
// the clock, the counters and the digest. See DESIGN.md for the layout.
//
// Caveats: every value that leaves the package is a copy; nothing returned is
// tied to the transaction except cursors. A WriteTx is used by one goroutine.
// Nothing here reads a clock, the environment or randomness.
package store
