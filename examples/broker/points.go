package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The points of the protocol at which a run may kill the leader, in their order.
const (
	pointAfterBegin     = "after-begin"
	pointBeforeSeal     = "before-seal"
	pointAfterSeal      = "after-seal"
	pointBeforeFlag     = "before-flag"
	pointAfterFlag      = "after-flag"
	pointDuringDeletion = "during-deletion" // the local log start has moved, and no file is gone yet
)

var killPoints = []string{pointAfterBegin, pointBeforeSeal, pointAfterSeal, pointBeforeFlag, pointAfterFlag, pointDuringDeletion}

// pointClassicFetch is before each fetch of a follower, for runs that hold it there.
const pointClassicFetch = "classic-fetch"

// points are named places in a broker at which the run that watches it can act: by files in
// a directory that all brokers share.
type points struct {
	dir    string
	broker int32
}

func (p points) killFile(name string) string { return filepath.Join(p.dir, "kill."+name) }

func (p points) holdFile(name string, broker int32) string {
	return filepath.Join(p.dir, fmt.Sprintf("hold.%s.%d", name, broker))
}

// reach kills this process, as kill -9 does, if it was asked for at this point and the
// process leads. Whoever takes the file away first is the one.
func (p points) reach(name string, leads bool) {
	if !leads || os.Remove(p.killFile(name)) != nil {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// hold waits while this broker is held at the point. The error is ctx's.
func (p points) hold(ctx context.Context, name string) error {
	for {
		if _, err := os.Stat(p.holdFile(name, p.broker)); errors.Is(err, fs.ErrNotExist) {
			return ctx.Err()
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits for d, or for the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
