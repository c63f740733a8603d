//go:build race

package raftnode

// raceDetector: the child processes of the tests take a second each to start.
const raceDetector = true
