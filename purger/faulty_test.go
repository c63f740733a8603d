package purger

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/cpnode/cpnode/purger/objectstore"
)

// fault is what is wrong with a store at present.
type fault int32

const (
	healthy  fault = iota
	refusing       // deletes nothing
	stuck          // deletes all but the objects under wal/0/
	partial        // deletes every second object, and fails the others
	lost           // deletes, and says that it failed: the answer did not arrive
	hanging        // deletes every second object, then answers no more
	slow           // deletes, and takes two minutes for each call
)

// faulty is a store that a test can break.
type faulty struct {
	objectstore.Store
	clock *clockwork.FakeClock
	fault atomic.Int32
	calls atomic.Int64
	hangs atomic.Int64
}

var errFault = errors.New("the store is broken")

func (f *faulty) set(what fault) { f.fault.Store(int32(what)) }

func (f *faulty) Delete(ctx context.Context, keys []string) []error {
	f.calls.Add(1)
	switch fault(f.fault.Load()) {
	case refusing:
		return f.every(ctx, keys, func(int) (bool, error) { return false, errFault })
	case stuck:
		return f.every(ctx, keys, func(i int) (bool, error) {
			if strings.HasPrefix(keys[i], "wal/0/") {
				return false, errFault
			}
			return true, nil
		})
	case partial:
		return f.every(ctx, keys, func(i int) (bool, error) {
			if i%2 == 1 {
				return false, errFault
			}
			return true, nil
		})
	case lost:
		return f.every(ctx, keys, func(int) (bool, error) { return true, errFault })
	case hanging:
		errs := f.every(ctx, keys, func(i int) (bool, error) { return i%2 == 0, errFault })
		f.hangs.Add(1)
		<-ctx.Done()
		for i := range errs {
			errs[i] = ctx.Err()
		}
		return errs
	case slow:
		f.clock.Advance(2 * time.Minute)
	}
	return f.Store.Delete(context.WithoutCancel(ctx), keys)
}

// every deletes the objects that which names, and answers its errors.
func (f *faulty) every(ctx context.Context, keys []string, which func(int) (bool, error)) []error {
	errs := make([]error, len(keys))
	for i, key := range keys {
		remove, err := which(i)
		errs[i] = err
		if remove {
			errs[i] = errors.Join(err, f.Store.Delete(ctx, []string{key})[0])
		}
	}
	return errs
}
