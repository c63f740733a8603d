//go:build !linux

package wal

import "os"

// allocate gives a file its size.
func allocate(f *os.File, size int64) error { return f.Truncate(size) }

func syncData(f *os.File) error { return f.Sync() }
