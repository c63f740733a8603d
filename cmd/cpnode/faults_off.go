//go:build !faults

package main

import "github.com/cpnode/cpnode/raftnode"

// injectFaults does nothing: only a build with the tag faults has a clock and a network
// that can be changed from outside.
func injectFaults(*raftnode.Config) error { return nil }
