// Package bench measures cpnode against what bounds it, in one run on one
// machine: real nodes on real files and loopback sockets, beside the floor that
// any such system pays (an fdatasync, a bbolt commit, Raft with a state machine
// that does nothing, bare bbolt rows).
//
// [Run] takes [Options] and returns a [Report] of lines, each with the floor's
// figure and the targets of the contract. Floor and measured points are
// interleaved, because a shared machine drifts: only ratios within one run mean
// something.
//
// Caveats: clients, nodes and floor share the machine's cores. Latencies are
// those of closed loops: a client asks again when it was answered.
package bench
