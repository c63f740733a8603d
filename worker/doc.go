// Package worker is what background workers have in common: cycles that do not overlap
// and are counted, the pauses between them, and metrics under the worker's name. A
// worker reads the time, waits and draws random numbers only by what it is given, so
// its tests need not wait.
package worker
