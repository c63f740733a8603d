package wal

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// allocate takes the space that a file will need, so that an append within it finds
// it, and need not make a new size durable. Where there is not as much, or that cannot
// be done, the file only gets its size, and appends take their space themselves.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errors.Join(f.Truncate(0), f.Truncate(size))
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
