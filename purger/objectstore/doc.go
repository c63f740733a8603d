// Package objectstore gives the workers of package purger access to the objects that
// committed files lie in: to list, to delete, and to compare. Brokers write and read
// objects by their own means; Put and Get are for tools and tests.
//
// There are three stores: [Directory], [S3] for any endpoint that speaks its protocol,
// and [Memory]. [Open] makes the one that a [Config] names, [Lazy] puts that off until it
// is needed, [WithPrefix] narrows a store to the keys that begin alike. All may be used from any goroutine.
//
// A key is what commit-file calls object_key. Stores differ in the keys that they can
// hold: a directory takes slash-separated paths, without empty, "." or ".." elements,
// and no key that is a directory of another one ("a" beside "a/b"). A key that a store
// cannot hold is an error everywhere, never an absent object.
package objectstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound is the answer of Stat and Get for a key without an object.
var ErrNotFound = errors.New("no such object")

// Object is what a store knows of one object besides its content.
type Object struct {
	Key  string
	Size int64 // bytes
	// ModifiedAt is when the object was put, by the store's clock.
	ModifiedAt time.Time
}

// Store is one place that holds objects.
type Store interface {
	// List calls fn for each object whose key begins with prefix and is greater than
	// after, in the order of the keys' bytes, until fn returns false. It reads page by
	// page: objects that come or go meanwhile may be seen or not.
	List(ctx context.Context, prefix, after string, fn func(Object) bool) error
	// Stat describes one object, or is ErrNotFound.
	Stat(ctx context.Context, key string) (Object, error)
	// Get opens one object, or is ErrNotFound. The caller closes it.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Put writes one object of size bytes, whole or not at all, over an older one.
	Put(ctx context.Context, key string, body io.Reader, size int64) error
	// Delete removes objects, and answers one error a key, in the order of keys: nil
	// only where the store has confirmed that no object has the key, for good. An
	// object that was absent before is confirmed too. Where ctx ends, or the outcome is
	// not known, the key has an error.
	Delete(ctx context.Context, keys []string) []error
	// Close lets go of what the store holds open. Nothing may be under way.
	Close() error
}

// failAll is the answer of Delete when nothing can be said of any key.
func failAll(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
