package segmentlog

import (
	"errors"
	"fmt"
)

// Every error of this package is one of these or of switchover's, for errors.Is; its text
// names the directory or file.
var (
	// ErrStorage: the disk failed. Whoever sees it tells the handler of failed log
	// directories. It wraps the error of the system.
	ErrStorage = errors.New("storage failed")
	// ErrCorrupt: what was on disk for good is not what was written. The text names file and
	// position.
	ErrCorrupt = errors.New("corrupt")
	// ErrClosed: the log was closed or removed.
	ErrClosed = errors.New("log is closed")
	// ErrInvalidBatch: a batch has a field that cannot be, or does not follow what is there:
	// its offset is not the end, or its epoch is below that of the records before it.
	ErrInvalidBatch = errors.New("invalid batch")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidBatch, fmt.Sprintf(format, args...))
}

// storage marks an error of the system; nil stays nil.
func storage(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w: %w", doing, name, ErrStorage, err)
}

func corrupt(name string, position int64, why string) error {
	return fmt.Errorf("%s at byte %d: %w: %s", name, position, ErrCorrupt, why)
}
