// Package sim runs whole clusters in one process, on simulated time: real nodes with
// their raft, state machine and state files, on a network and on disks that fail as a
// seed says. See DESIGN.md.
package sim
