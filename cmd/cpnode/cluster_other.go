//go:build !linux

package main

import "syscall"

// childAttributes makes a child a group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
