// Package switchover is the gate that one broker runs over its local logs, so that a
// classic partition can become a diskless one while it is written and read. It is
// written against the interfaces in this package; switch/segmentlog is a log that is one.
//
// Until the phase flag is committed (commit-prefix-in-remote-storage), the local logs of
// the ISR hold the only complete copy of the classic prefix; from then on only the remote
// copy is trusted, and no record of the prefix is read from a local log any more.
package switchover
