// Package segmentlog is the log of one partition on real files: a directory of segments
// that hold record batches, and a checkpoint with the offsets and the leader-epoch cache.
//
// A Log is the switchover.LocalLog that ships with the gate: what a broker has on its disk
// of a classic partition, of the prefix of one that was switched, and of the records that
// consolidation brings from diskless storage.
//
// # Offsets
//
//	log start <= local log start <= high watermark <= end
//
// What is between log start and local log start is in remote storage. There are no holes
// between local log start and end.
//
// # Batches are whole
//
// A batch is the unit of everything: it is appended, read, checked and cut as a whole. A
// read at an offset inside of a batch returns it from its beginning. Truncation to an
// offset inside of a batch removes all of it, so that the end is then below what was asked
// for. A local log start may lie inside of a batch, after SetLogStart.
//
// # Locks
//
// Two, always taken in this order, and nothing of the caller's runs under the second:
//
//   - Log.write is held by one change at a time, from its beginning to its end, over its
//     disk writes: append, roll, flush, truncate, delete, moving a start, seal, rename,
//     close. So no classic append is under way when Seal returns. It also guards what only
//     changes use. Config.BeforeUnlink runs under it.
//   - Log.state guards what readers see: the list of segments with their sizes and
//     indexes, the offsets, the epochs. It is held for a look or an assignment, never
//     over I/O.
//
// A read takes Log.state for a look, reads the file without a lock, and looks again: if in
// between anything was truncated, deleted, or a start moved (Log.generation), it begins
// anew. So it waits for no disk write and holds none up, and never returns bytes of a file
// that was deleted, or cut and written again, meanwhile.
//
// All methods may be called concurrently. One directory is opened once at a time; seeing to
// that is the caller's, who locks the disk that it is on.
package segmentlog
