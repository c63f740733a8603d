package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a store in the memory of the process, for tests and trials.
type Memory struct {
	now func() time.Time

	mu      sync.RWMutex
	objects map[string]memoryObject
}

type memoryObject struct {
	content    []byte // never changed
	modifiedAt time.Time
}

var _ Store = (*Memory)(nil)

// errEmptyKey is the one key that no store can hold.
var errEmptyKey = errors.New("an object key must not be empty")

// NewMemory is an empty store, whose objects are as old as now says at their Put; nil is
// time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, objects: map[string]memoryObject{}}
}

// List implements Store. It holds a sorted copy of the keys.
func (m *Memory) List(ctx context.Context, prefix, after string, fn func(Object) bool) error {
	m.mu.RLock()
	keys := slices.Sorted(maps.Keys(m.objects))
	m.mu.RUnlock()
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if key <= after || !strings.HasPrefix(key, prefix) {
			continue
		}
		if o, err := m.Stat(ctx, key); err == nil && !fn(o) {
			return nil
		}
	}
	return nil
}

// Stat implements Store.
func (m *Memory) Stat(ctx context.Context, key string) (Object, error) {
	o, err := m.object(ctx, key)
	return Object{Key: key, Size: int64(len(o.content)), ModifiedAt: o.modifiedAt}, err
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	o, err := m.object(ctx, key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(o.content)), nil
}

func (m *Memory) object(ctx context.Context, key string) (memoryObject, error) {
	if err := ctx.Err(); err != nil {
		return memoryObject{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[key]
	if !ok {
		return memoryObject{}, fmt.Errorf("%q: %w", key, ErrNotFound)
	}
	return o, nil
}

// Put implements Store.
func (m *Memory) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	if key == "" {
		return errEmptyKey
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if int64(len(content)) != size {
		return wrongSize(key, int64(len(content)), size)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = memoryObject{content, m.now()}
	return nil
}

func wrongSize(key string, got, want int64) error {
	return fmt.Errorf("%q: the body has %d bytes, announced were %d", key, got, want)
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, keys []string) []error {
	if err := ctx.Err(); err != nil {
		return failAll(len(keys), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make([]error, len(keys))
	for i, key := range keys {
		if key == "" {
			errs[i] = errEmptyKey
		}
		delete(m.objects, key)
	}
	return errs
}

// Close implements Store.
func (m *Memory) Close() error { return nil }
