package store

import (
	"reflect"
	"unsafe"
)

// Change and the kinds of it are what Watched sees.
type Change = change

// Kinds of changes.
const (
	OpWrite   = opWrite
	OpSync    = opSync
	OpCreate  = opCreate
	OpRename  = opRename
	OpRemove  = opRemove
	OpSyncDir = opSyncDir
)

// Op is the kind of a change.
func (c change) Op() diskOp { return c.op }

// Path is the file that is changed.
func (c change) Path() string { return c.path }

// To is where it is renamed to.
func (c change) To() string { return c.to }

// Data is what is written at Offset.
func (c change) Data() []byte { return c.data }

// Offset is where Data goes.
func (c change) Offset() int64 { return c.off }

// Watched makes fn see every change to the files of a store before it is made,
// those that bbolt makes within transactions included.
func (o Options) Watched(fn func(Change)) Options {
	o.watch = func(c change) {
		if c.op != opOpenDB {
			fn(c)
			return
		}
		hook := reflect.ValueOf(c.db).Elem().FieldByName("ops").FieldByName("writeAt")
		writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(hook.UnsafeAddr()))
		real := *writeAt
		*writeAt = func(b []byte, off int64) (int, error) {
			fn(change{op: opWrite, path: c.path, off: off, data: b})
			return real(b, off)
		}
	}
	return o
}

// Unpin releases the transaction that keeps the pages of the newest record.
func (s *Store) Unpin() { s.unpin() }

// NewChange is a change that no store has made.
func NewChange(op diskOp, path string, off int64, data []byte) Change {
	return change{op: op, path: path, off: off, data: data}
}

// Copy is c with data of its own.
func (c change) Copy() Change {
	c.data = append([]byte(nil), c.data...)
	return c
}
