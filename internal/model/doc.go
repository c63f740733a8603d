// Package model is a second, plain implementation of the control plane's operations: maps, slices and linear scans,
// no log, no file, no splitting. Random tests run the same operations through it and through the real thing and compare
// the answers, so it must share no code with the real one and is written from the specification alone.
//
// [Model] is the state and carries out operations; [Gen] makes random ones that reach every rule. [Model.Invariants]
// recounts what must hold after each operation.
//
// Requests are decoded leniently (unknown fields pass); the refusals that the rules of an operation name are kept.
// Not modelled: run-worker, report-remote-offsets, the operations of the switch, and the limits that a request meets
// before its operation sees it (body, entry, batches and items of a request).
package model
