package cluster

import "syscall"

// processAttributes make a node a group of its own, so that Ctrl-C does not reach it,
// that dies with this process.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
