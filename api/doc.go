// Package api gives the operations of a node to those who use them: in process
// ([Embedded]), over HTTP ([Server], and [Client] on the other side), and to the
// other nodes of the cluster, which forward what only the leader may answer.
//
// [ControlPlane] is the one interface of all of them: a method an operation. Its
// errors are *ops.Error, to be told apart by code:
//
//	errors.Is(err, &ops.Error{Code: ops.ObjectKeyFenced})
//
// except that a call whose context ended before anything was done answers that
// context's error. What happened to single items is in the answers.
//
// Requests are strict and answers are tolerant, on every way in: see package wire.
package api
