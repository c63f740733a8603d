//go:build !race

package raftnode

const raceDetector = false
