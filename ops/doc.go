// Package ops holds every operation of the control plane, one file each, in
// reading order: request, response, checks, and either Query, which reads, or
// the command that is logged and its Apply.
//
// A read implements [Query]. A write implements [Write]: it turns its request
// into one log entry, or into several small ones ([Steps]), so that none stalls
// commits. The registry knows them all by name; [Encode], [Decode] and [Apply] carry a
// [Command] through the log. Apply decides on the whole command first and writes
// after; what it does depends on nothing but the state, the command and the
// clock that the entry carries.
//
// An outcome that a client can cause is a result. An error from Apply means that
// the entry cannot be carried out: the node must stop.
package ops
