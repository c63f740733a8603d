package crashdisk

import (
	"reflect"
	"unsafe"

	"github.com/cpnode/cpnode/store"
)

// Watch is a store.Options.Watch that hands fn every change before it is made, those
// that bbolt makes within transactions included. An error of fn is the error of the
// change. around, unless nil, carries out each of bbolt's writes, so that it can keep
// others from looking meanwhile; its error is that of the write.
func Watch(fn func(store.Change) error, around func(write func()) error) func(store.Change) error {
	if around == nil {
		around = func(write func()) error {
			write()
			return nil
		}
	}
	return func(c store.Change) error {
		if c.Op != store.OpOpenDB {
			return fn(c)
		}
		// bbolt has no other place where its writes can be seen.
		hook := reflect.ValueOf(c.DB).Elem().FieldByName("ops").FieldByName("writeAt")
		writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(hook.UnsafeAddr()))
		real := *writeAt
		*writeAt = func(b []byte, off int64) (n int, err error) {
			if err := fn(store.Change{Op: store.OpWrite, Path: c.Path, Off: off, Data: b}); err != nil {
				return 0, err
			}
			if refused := around(func() { n, err = real(b, off) }); refused != nil {
				return 0, refused
			}
			return n, err
		}
		return nil
	}
}
