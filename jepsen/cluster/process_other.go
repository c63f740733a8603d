//go:build !linux

package cluster

import "syscall"

// processAttributes make a node a group of its own, so that Ctrl-C does not reach it.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
