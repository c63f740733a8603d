package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataSync makes what was written to f durable, its size where that changed, and
// not its times.
func dataSync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
