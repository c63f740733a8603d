package objectstore

import (
	"context"
	"io"
)

// Lazy is a store that is opened by the first call that needs it, and, while that fails,
// by each next one: what uses it can start before the store answers.
type Lazy struct {
	open   func(context.Context) (Store, error)
	turn   chan struct{} // holds a token while nobody opens
	opened Store         // read and written by who has the token
}

var _ Store = (*Lazy)(nil)

// NewLazy makes a store of what open opens.
func NewLazy(open func(context.Context) (Store, error)) *Lazy {
	l := &Lazy{open: open, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// Ready opens the store if it is not open. Its error is that of opening, or ctx's.
func (l *Lazy) Ready(ctx context.Context) error {
	_, err := l.get(ctx)
	return err
}

func (l *Lazy) get(ctx context.Context) (Store, error) {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.opened != nil {
		return l.opened, nil
	}
	s, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	l.opened = s
	return s, nil
}

// List implements Store.
func (l *Lazy) List(ctx context.Context, prefix, after string, fn func(Object) bool) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.List(ctx, prefix, after, fn)
}

// Stat implements Store.
func (l *Lazy) Stat(ctx context.Context, key string) (Object, error) {
	s, err := l.get(ctx)
	if err != nil {
		return Object{}, err
	}
	return s.Stat(ctx, key)
}

// Get implements Store.
func (l *Lazy) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, key)
}

// Put implements Store.
func (l *Lazy) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Put(ctx, key, body, size)
}

// Delete implements Store: of a store that cannot be opened nothing is confirmed.
func (l *Lazy) Delete(ctx context.Context, keys []string) []error {
	s, err := l.get(ctx)
	if err != nil {
		return failAll(len(keys), err)
	}
	return s.Delete(ctx, keys)
}

// Close implements Store.
func (l *Lazy) Close() error {
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
