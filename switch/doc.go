// Package switchover is the gate that one broker runs over its local logs, so that a
// classic partition can become a diskless one while it is written and read. It is
// written against the interfaces in this package; switch/segmentlog is a log that is one.
//
// Until the phase flag is committed (commit-prefix-in-remote-storage), the local logs of
// the ISR hold the only complete copy of the classic prefix; from then on only the remote
// copy is trusted, and no record of the prefix is read from a local log any more.
//
// # What a broker tells the gate
//
//   - Open: the local log that it holds of a partition. Apply: what the control plane says
//     of a partition, at the start and at each change; the phase flag is one of them.
//   - Append, AppendFetched, AppendConsolidated, TruncateFollower, Rebuild: all that is
//     written. Read: all that is read, by consumers and by followers.
//   - LeavesClassic and Evicted: the classic fetcher has come to the seal.
//   - StartMove and MoveStep: a directory move. Remove: the partition is gone.
//
// The rest, which is time, the gate sees to by itself between Start and Close: deletion of
// prefixes, commits of seals, flags and ISRs.
//
// # Locks
//
// Taken in this order, and never in another:
//
//  1. partition.role, held over a whole change of role. Fetchers are called under it.
//  2. partition.mu, the lock of the log: shared to read, to append and to copy; alone to
//     take a role, to truncate, to delete the prefix and to promote a future log. LocalLog
//     is called under it, and neither the network nor a fetcher waits for anything under it.
//  3. progress.mu, under which the high watermark is raised.
//  4. queue.mu, signal.mu and Gate.mu, under which nothing is called.
//
// Reads, appends, fetches, deletions and moves never take the first. So a fetcher that is
// being stopped can finish what it is at, a disk that hangs in the deletion of one prefix
// holds up that partition alone, and its error, which goes to the LogDirFailureHandler
// without any lock, cannot meet a change of role half-way. What the gate does for many
// partitions on one goroutine waits for none of these two: a commit passes over a partition
// whose log is locked.
package switchover
